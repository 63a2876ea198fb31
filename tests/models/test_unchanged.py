"""A model of the user's is, after loading and after measuring, what it was; and it is measured as it would have run."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BigBirdConfig, BigBirdForMaskedLM, PreTrainedConfig

import whence
from tests import tiny
from tests.families import SMALL, batch, build, scatter
from tests.sweep.condition import changed, condition
from whence.errors import Unsupported
from whence.models.unchanged import unchanged
from whence.models.weights import first

FAMILIES = ("bert", "gpt2", "llama", "gemma3_text", "xlnet", "deberta-v2", "mixtral", "mamba")
SHORT, LONG, ODD = "ada bo cy", "ada bo cy dee ed . " * 4, "ada bo cy dee ed . " * 4 + "ada"


@pytest.fixture
def sparse():
    """BigBird whose attention is block-sparse for more than 14 tokens, and full for fewer."""
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "block_size": 2, "num_random_blocks": 1}
    return scatter(BigBirdForMaskedLM(BigBirdConfig(**settings, attention_type="block_sparse"))).eval()


def put_to_use(model):
    """In training, with a hook and a frozen weight: everything that could be lost."""
    model.train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    model.register_forward_hook(lambda module, args, output: None)
    return condition(model)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_what_it_was(name):
    model = build(name)
    before = put_to_use(model)
    loaded = whence.load(model, tiny.tokenizer())
    assert not changed(before, condition(model))
    measure = "attention" if "attention" in loaded.gives else "jacobian"
    whence.measure(loaded, SHORT, measure)
    if "derivatives" in loaded.gives:
        whence.measure(loaded, SHORT, "gradient")
    assert not changed(before, condition(model))


def test_bigbird_keeps_its_block_sparse_attention(sparse):
    before, tokens = put_to_use(sparse), batch([30]).ids
    expected = copy.deepcopy(sparse).eval()(tokens).logits
    loaded = whence.load(sparse, tiny.tokenizer())
    whence.measure(loaded, SHORT, ["attention", "gradient"])
    assert not changed(before, condition(sparse))
    assert torch.equal(sparse.eval()(tokens).logits, expected)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # functorch has no batching rule for scatter_
def test_bigbird_is_measured_as_it_runs(sparse):
    """The derivatives of a long text are those of the block-sparse attention."""
    loaded = whence.load(sparse, tiny.tokenizer())
    found = whence.measure(loaded, LONG, whence.Jacobian(mode="exact"))["jacobian"].values[-1]
    stack = copy.deepcopy(sparse.bert)
    ids = torch.tensor([tiny.tokenizer()(LONG)["input_ids"]])
    targets = [0, 9, 10, ids.shape[1] - 1]  # the ends see every token
    sizes = torch.zeros(len(targets), ids.shape[1])
    start, output = _ends(stack, ids)
    assert stack.attention_type == "block_sparse"
    for row, target in zip(sizes, targets, strict=True):
        for state in output[0, target]:
            row += torch.autograd.grad(state, start, retain_graph=True)[0][0].square().sum(dim=-1)
    np.testing.assert_allclose(found[targets], sizes.sqrt(), atol=1e-5 * float(sizes.sqrt().max()))


def _ends(stack, ids):
    """What the first block reads and the last one gives."""
    seen = []
    stack.encoder.layer[0].register_forward_pre_hook(lambda block, args: seen.append(args[0]))
    stack.encoder.layer[-1].register_forward_hook(lambda block, args, output: seen.append(first(output)))
    stack(ids)
    return seen


@pytest.mark.parametrize(
    ("text", "measure", "said"), [(LONG, "value_rank", "one attention"), (ODD, "gradient", "27 tokens")]
)
def test_what_bigbird_does_not_give_of_long_texts_is_refused(sparse, text, measure, said):
    loaded = whence.load(sparse, tiny.tokenizer())
    with pytest.raises(Unsupported, match=said):
        whence.measure(loaded, text, measure)


@pytest.mark.parametrize("training", [False, True])
def test_the_weights_of_rwkv_come_back(training):
    """It divides them when it is run for evaluation, and then halves the states between blocks, so it is refused."""
    model = build("rwkv", rescale_every=1).train(training)
    expected, before = copy.deepcopy(model).eval()(batch([9]).ids).logits, condition(model)
    with pytest.raises(Unsupported, match="every block reads what the one before gave"):
        whence.load(model, tiny.tokenizer())
    assert not changed(before, condition(model))
    assert torch.equal(model.eval()(batch([9]).ids).logits, expected)


class _Changing(nn.Module):
    """Changes in every way that a pass can: a child, a buffer, a parameter, an attribute, a setting."""

    def __init__(self):
        super().__init__()
        self.config = PreTrainedConfig(inner=PreTrainedConfig())
        self.kept, self.table = nn.Linear(2, 2), nn.Linear(2, 2)
        self.register_buffer("positions", torch.arange(3))
        self.length = 3

    def forward(self):
        self.table, self.more, self.length = nn.Linear(2, 4), nn.Linear(2, 2), 5
        self.register_buffer("positions", torch.arange(5))
        self.kept.weight, self.kept.bias = nn.Parameter(torch.zeros(2, 2)), None
        self.config.inner.new, self.config.use_cache = 1, False


def test_every_kind_of_change_is_put_back():
    model = _Changing()
    tables = [vars(part)[name] for part in model.modules() for name in ("_modules", "_parameters", "_buffers")]
    tables += [vars(model), vars(model.config), vars(model.config.inner)]
    before = [dict(table) for table in tables]
    with pytest.raises(RuntimeError), unchanged(list(model.modules())):
        model()
        assert model.length == 5 and model.kept.bias is None
        raise RuntimeError("in the middle")
    for table, saved in zip(tables, before, strict=True):
        assert list(table) == list(saved) and all(table[name] is saved[name] for name in saved)
