"""A linear layer is read as what it computes at the time: plain, adapted (LoRA, its kin), wrapped or parametrized."""

import pytest
import torch
from torch import nn

import whence
from tests.families import build
from tests.tiny import tokenizer
from whence.errors import BadInput, Unsupported
from whence.models.affine import AGREE, read_affine
from whence.models.fingerprint import weights_sha256
from whence.models.load import Model

peft = pytest.importorskip("peft", reason="adapters are PEFT's, which is not installed")

TEXT = "ada bo cy dee ed ."
ASKED = ["norms", "mixing", "block"]
FAMILIES = {"bert": {}, "llama": {}, "gpt2": {"fan_in_fan_out": True}, "falcon": {}, "albert": {}}


def adapted(name="bert", dtype=torch.float32, kind=None, **more):
    """A tiny model with a random adapter on every linear layer but the LM head."""
    network = build(name, pad_token_id=0).to(dtype)
    settings = {"target_modules": "all-linear", "init_lora_weights": False, "lora_alpha": 8, "r": 4}
    network.add_adapter((kind or peft.LoraConfig)(**(settings | FAMILIES[name] | more)))
    return _drawn(network)


def _drawn(network):
    """Adapters with numbers that nothing could mistake for none."""
    for name, parameter in network.named_parameters():
        if "lora_" in name or "magnitude" in name:
            nn.init.normal_(parameter.data, mean=float("magnitude" in name), std=0.3)
    return network


def merged(network, dtype=None):
    """The same model with the adapters in its weights: PEFT's own arithmetic, so an independent one."""
    import copy

    one = copy.deepcopy(network)
    for module in list(one.modules()):
        if isinstance(module, peft.tuners.tuners_utils.BaseTunerLayer):
            module.merge()
    for parent in list(one.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, peft.tuners.tuners_utils.BaseTunerLayer):
                setattr(parent, name, child.get_base_layer())
    return one if dtype is None else one.to(dtype)


def measured(network, asked=ASKED):
    model = network if isinstance(network, Model) else whence.load(network, tokenizer())
    return whence.measure(model, TEXT, asked)


def apart(found, expected):
    errors = {
        name: float(abs(found[name] - expected[name]).max() / abs(expected[name]).max()) for name in expected.data_vars
    }
    return max(errors.values())


@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_an_adapted_model_is_measured_as_the_merged_one(name, dora):
    network = adapted(name, use_dora=dora)
    found = measured(network)
    assert apart(found, measured(merged(network))) < 1e-4
    assert apart(found, measured(build(name, pad_token_id=0))) > 0.01


def test_derivatives_and_the_rest_of_an_adapted_model():
    network, asked = adapted(), ["contribution", "effective", "value_zeroing", "expansion"]
    assert apart(measured(network, asked), measured(merged(network), asked)) < 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_in_every_precision(dtype):
    """In 16 bits no worse than rounding: as near to the truth as the same model without an adapter is."""
    network = adapted("llama", dtype)
    same, truth = merged(network, dtype), merged(network, torch.float64)
    found, rounded, expected = (measured(one, ["norms"]).sel(layer=[1]) for one in (network, same, truth))
    assert apart(found, expected) <= max(1.5 * apart(rounded, expected), 1e-5)


def test_the_state_at_the_time_of_measuring_counts():
    network = adapted()
    model = whence.load(network, tokenizer())
    plain, strong = measured(build("bert", pad_token_id=0)), measured(model)
    network.disable_adapters()
    assert apart(measured(model), plain) < 1e-4
    network.enable_adapters()
    assert measured(model).equals(strong)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "lora_B" in name:
                parameter.data.mul_(1.5)
    assert apart(measured(model), measured(merged(network))) < 1e-4
    assert apart(measured(model), strong) > 0.01


def test_merged_and_several_adapters():
    network = adapted()
    with pytest.warns(UserWarning, match="multiple adapters"):
        network.add_adapter(peft.LoraConfig(target_modules=["query", "dense"], r=2, init_lora_weights=False), "second")
    network.set_adapter(["default", "second"])
    model = whence.load(_drawn(network), tokenizer())
    both, expected = measured(model), merged(network)
    assert apart(both, measured(expected)) < 1e-4
    network.set_adapter("second")
    assert apart(measured(model), measured(merged(network))) < 1e-4
    network.set_adapter(["default", "second"])
    for module in network.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.merge()
    assert apart(measured(model), both) < 1e-4


OTHERS = {
    "IA3Config": {"feedforward_modules": [], "init_ia3_weights": False},
    "LoHaConfig": {"init_weights": False},
    "OFTConfig": {"oft_block_size": 8, "init_weights": False},  # turn what they read, so the layer inside reads it not
    "HRAConfig": {"init_weights": False},
}


@pytest.mark.parametrize("kind", OTHERS)
def test_adapters_of_other_kinds_are_asked(kind):
    network = build("bert", pad_token_id=0)
    network.add_adapter(getattr(peft, kind)(target_modules=["dense"], **OTHERS[kind]))
    for name, parameter in network.named_parameters():
        if any(part in name for part in ("ia3", "hada", "oft", "hra")):
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    assert apart(measured(network), measured(merged(network))) < 1e-4


def test_an_adapter_around_a_norm_is_refused_by_name():
    network = build("bert", pad_token_id=0)
    with pytest.warns(UserWarning, match="Unsupported layer type"):
        network.add_adapter(peft.LNTuningConfig(target_modules=["attention.output.LayerNorm"]))
    with pytest.raises(Unsupported, match="merge the adapter first"):
        whence.load(network, tokenizer())


def test_an_adapted_head():
    network = build("llama", pad_token_id=0)
    network.add_adapter(peft.LoraConfig(target_modules=["lm_head", "o_proj"], init_lora_weights=False))
    model = whence.load(_drawn(network), tokenizer())
    assert "lm_head" in model.gives
    read, own = model.anatomy.head, network.lm_head
    states = torch.randn(3, 64)
    assert torch.allclose(read(states), own(states), rtol=1e-4, atol=1e-4)


def test_other_adapters_make_other_digests():
    """Results and states are found again by the digest of the weights."""
    network = adapted()
    model = whence.load(network, tokenizer())
    before = weights_sha256(model)
    network.disable_adapters()
    assert weights_sha256(model) != before
    network.enable_adapters()
    assert weights_sha256(model) == before


class Wrapped(nn.Module):
    """LoRA as one writes it oneself, the update first."""

    def __init__(self, inner):
        super().__init__()
        self.down, self.up = nn.Linear(inner.in_features, 3, bias=False), nn.Linear(3, inner.out_features, bias=False)
        self.dropout, self.inner = nn.Dropout(0.5), inner

    def forward(self, states):
        return self.up(self.down(self.dropout(states))) + self.inner(states)


class Bent(Wrapped):
    def forward(self, states):
        return super().forward(states) + self.up(self.down(states).relu())


def wrap(network, kind):
    for block in network.bert.encoder.layer:
        block.attention.output.dense = kind(block.attention.output.dense)
        block.output.dense = kind(block.output.dense)
    return network


def test_a_wrapper_of_ones_own():
    network = wrap(build("bert", pad_token_id=0), Wrapped).train()
    found = measured(network)
    for block in network.bert.encoder.layer:
        for holder in (block.attention.output, block.output):
            update = holder.dense.up.weight @ holder.dense.down.weight
            holder.dense = holder.dense.inner
            holder.dense.weight = nn.Parameter(holder.dense.weight + update)
    assert apart(found, measured(network)) < 1e-4


def test_a_wrapper_that_is_no_linear_map_is_refused():
    with pytest.raises(Unsupported, match="Bent stands where a linear layer is expected and is no affine map"):
        whence.load(wrap(build("bert", pad_token_id=0), Bent), tokenizer())


def test_a_parametrized_layer_is_read_as_it_is_now():
    network = build("bert", pad_token_id=0)
    dense = network.bert.encoder.layer[1].output.dense
    nn.utils.parametrizations.weight_norm(dense)
    model = whence.load(network, tokenizer())
    with torch.no_grad():
        dense.parametrizations.weight.original0.mul_(2)
    found = measured(model)
    nn.utils.parametrize.remove_parametrizations(dense, "weight")
    assert apart(found, measured(network)) < 1e-5


def test_weights_changed_in_place_are_seen():
    network = build("bert", pad_token_id=0)
    model = whence.load(network, tokenizer())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.1)
    assert measured(model).equals(measured(network))
    network.double()
    assert measured(model).equals(measured(network))


def test_what_was_not_verified_is_not_measured():
    """An adapter added or a layer replaced after loading, a hook that changes what a layer gives."""
    network = build("bert", pad_token_id=0)
    model = whence.load(network, tokenizer())
    handle = network.bert.encoder.layer[0].output.register_forward_hook(lambda _, __, output: output * 2)
    with pytest.raises(BadInput, match=r"changed after it was loaded.*load it again"):
        measured(model)
    handle.remove()
    measured(model)
    network.add_adapter(peft.LoraConfig(target_modules=["query"]))
    with pytest.raises(BadInput, match=r"changed after it was loaded.*load it again"):
        measured(model)
    measured(whence.load(network, tokenizer()))


def test_asking_and_the_definition_agree():
    layer = adapted().bert.encoder.layer[0].output.dense
    affine = read_affine(layer)
    states = torch.randn(5, 80)
    assert torch.allclose(affine(states), layer(states), rtol=AGREE, atol=AGREE)
