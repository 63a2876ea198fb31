"""Every norm of every family against torch.func.jacrev and the plain model; borders; memory; the built-in model."""

import gc
import threading
import time
from dataclasses import replace

import psutil
import pytest
import torch

from tests.families import DISTINCT, batch, build
from tests.measures.reference import derivatives
from whence.errors import BadInput, Unsupported
from whence.linear import cost
from whence.measures.flow.contribution import gradient, gradient_local, jacobian, jacobian_local
from whence.models.block import Batch
from whence.models.encode import encode
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.text.sentence import sentence

TOKENS = 5
SUMS = ("bert", "electra", "albert", "modernbert", "gpt2", "llama")


@pytest.fixture(scope="module")
def bert():
    return locate(build("bert"))


@pytest.fixture(scope="module")
def exact(bert):
    return jacobian(bert, batch([TOKENS]), mode="exact")


def apart(found, expected):
    """Largest relative difference of any cell; cells that are zero must be zero."""
    assert found.shape == expected.shape
    assert torch.equal(found == 0, expected == 0)
    return ((found - expected).abs() / expected.clamp(min=1e-12)).max().item()


@pytest.mark.parametrize("name", DISTINCT)
def test_agrees_with_jacrev(name):
    anatomy, given, layers = locate(build(name)), batch([4]), [1, 2]
    with linearised(anatomy, given) as chain:
        own, blocks = derivatives(chain, 2)
    local = own[1:]
    found = jacobian(anatomy, given, mode="exact", layers=layers)
    assert apart(found.norms, torch.linalg.matrix_norm(blocks)) < 1e-5
    assert apart(jacobian(anatomy, given, norm="ones", layers=layers).norms, _ones(blocks)) < 1e-5
    assert apart(jacobian_local(anatomy, given, layers=[2]).norms, torch.linalg.matrix_norm(local)) < 1e-5
    assert apart(jacobian_local(anatomy, given, norm="ones", layers=[2]).norms, _ones(local)) < 1e-5
    if name in SUMS:
        spectral = jacobian(anatomy, given, norm="spectral", layers=layers)
        assert apart(spectral.norms, torch.linalg.matrix_norm(blocks, 2)) < 1e-5


def _ones(blocks):
    return blocks.sum(dim=-2).norm(dim=-1)


@pytest.mark.parametrize("name", [*SUMS, "bloom"])
@pytest.mark.parametrize("start", ["embedding", "sum"])
def test_agrees_with_the_model_itself(name, start):
    """Reverse mode through the whole model, a change added to what the word embedding or the first block gives."""
    anatomy, given = locate(build(name)), batch([TOKENS])
    found = jacobian(anatomy, given, mode="exact", start=start, layers=[3], targets=[3]).norms[0, 0]
    first, last = anatomy.blocks[0], anatomy.blocks[-1]
    place = anatomy.stack.get_input_embeddings()
    outputs, calls = [], []

    def nudged(change):
        def embed(module, args, output):
            return output + change

        def enter(module, args, kwargs):
            if calls:  # ALBERT runs the same block several times
                return None
            calls.append(module)
            if args:
                return (args[0] + change, *args[1:]), kwargs
            return args, kwargs | {"hidden_states": kwargs["hidden_states"] + change}

        calls.clear()
        hooks = [last.register_forward_hook(lambda module, args, output: outputs.append(output))]
        if start == "sum":
            hooks.append(place.register_forward_hook(embed))
        else:
            hooks.append(first.register_forward_pre_hook(enter, with_kwargs=True))
        anatomy.stack(input_ids=given.ids, use_cache=False) if name in ("gpt2", "llama") else anatomy.stack(given.ids)
        for hook in hooks:
            hook.remove()
        output = outputs[-1][0] if isinstance(outputs[-1], tuple) else outputs[-1]
        return output[0, 3]

    width = place.weight.shape[1] if start == "sum" else anatomy.width
    blocks = torch.autograd.functional.jacobian(nudged, torch.zeros(1, TOKENS, width))[:, 0]
    assert apart(found, torch.linalg.matrix_norm(blocks.transpose(0, 1))) < 1e-5


@pytest.mark.parametrize("name", ["bert", "albert", "distilbert", "xlnet"])
def test_agrees_with_finite_differences(name):
    anatomy, step = locate(build(name).double()), 1e-5
    with linearised(anatomy, batch([TOKENS])) as chain:
        tangent = torch.randn_like(chain.states)

        def output(states):
            for block in chain.steps:
                states = block.block(states)
            return states

        expected = (output(chain.states + step * tangent) - output(chain.states - step * tangent)) / (2 * step)
        pushed = tangent[None]
        for block in chain.steps:
            pushed = block.push(pushed)
    assert ((pushed[0] - expected).abs().max() / expected.abs().max()) < 1e-7


def test_without_a_norm_the_sum_is_layer_zero():
    anatomy, given = locate(build("gpt2")), batch([TOKENS])
    flows = [jacobian(anatomy, given, start=start) for start in ("embedding", "sum")]
    assert torch.equal(flows[0].norms, flows[1].norms)


@pytest.mark.parametrize("mode", ["exact", "sketch"])
@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_nothing_comes_from_the_future(name, mode):
    norms = jacobian(locate(build(name)), batch([TOKENS]), mode=mode).norms
    assert not norms.triu(diagonal=1).any()
    assert (norms.diagonal(dim1=1, dim2=2) > 0).all()


def test_rows_of_contribution_sum_to_one(bert, exact):
    torch.testing.assert_close(exact.contribution.sum(dim=-1), torch.ones(3, TOKENS))
    with pytest.raises(BadInput, match="share of all 5 sources, and 1 were"):
        _ = jacobian(bert, batch([TOKENS]), sources=[2]).contribution


def test_what_is_asked_for_is_a_part_of_the_whole(bert, exact):
    twice = jacobian(bert, batch([TOKENS]), mode="exact", targets=[1, 1], sources=[2, 2])
    assert twice.sources == (2,) and torch.allclose(twice.norms, exact.norms[:, [1]][..., [2]], rtol=1e-5)
    part = jacobian(bert, batch([TOKENS]), mode="exact", layers=[1, 3], targets=[4, 0], sources=[2])
    torch.testing.assert_close(part.norms, exact.norms[[0, 2]][:, [4, 0]][..., [2]], rtol=1e-5, atol=0)
    torch.testing.assert_close(
        gradient_local(bert, batch([TOKENS])).norms[[2]], jacobian_local(bert, batch([TOKENS]), "ones", [3]).norms
    )
    local = jacobian_local(bert, batch([TOKENS]), layers=[2], targets=[1])
    torch.testing.assert_close(local.norms, jacobian_local(bert, batch([TOKENS])).norms[[1]][:, [1]])
    ones = jacobian(bert, batch([TOKENS]), norm="ones", layers=[2], sources=[3])
    torch.testing.assert_close(ones.norms, gradient(bert, batch([TOKENS])).norms[[1]][..., [3]])


@pytest.mark.parametrize(
    ("name", "start", "norm"),
    [(name, "embedding", "frobenius") for name in ("bert", "llama", "gemma2", "phi", "mixtral", "xlnet", "mamba")]
    + [("bert", "sum", "spectral"), ("electra", "sum", "frobenius"), ("llama", "embedding", "spectral")],
)
def test_few_targets_are_pulled_to_the_same_numbers(name, start, norm):
    """Pulled from one target of one layer, or of several, as pushed from all sources."""
    anatomy, given = locate(build(name)), batch([TOKENS])
    whole = jacobian(anatomy, given, norm, "exact", start)
    assert not cost.pulls(TOKENS, TOKENS, whole.layers)
    for layers, targets in (([3], [2]), ([2, 3], [4]), ([3, 1], [1, 0])):
        assert cost.pulls(TOKENS, len(targets), layers)
        few = jacobian(anatomy, given, norm, "exact", start, layers, targets)
        expected = whole.norms[[layer - 1 for layer in layers]][:, targets]
        assert apart(few.norms, expected) < 1e-4 and few.targets == tuple(targets)


@pytest.mark.parametrize("name", ["bert", "llama", "mamba"])
def test_gradients_of_few_targets_are_those_of_all(name):
    anatomy, given = locate(build(name)), batch([TOKENS])
    for measure in (gradient, gradient_local):
        few, whole = measure(anatomy, given, layers=[3, 2], targets=[4, 1]), measure(anatomy, given)
        torch.testing.assert_close(few.norms, whole.norms[[2, 1]][:, [4, 1]], rtol=1e-4, atol=1e-7)


def test_what_goes_by_the_whole_stack_is_pulled_too():
    given, plain = batch([TOKENS]), locate(build("llama"))
    anatomy = replace(plain, side_paths=True)
    whole = jacobian(anatomy, given, mode="exact").norms
    few = jacobian(anatomy, given, mode="exact", layers=[3, 2], targets=[3]).norms
    torch.testing.assert_close(few, whole[[2, 1]][:, [3]], rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(whole, jacobian(plain, given, mode="exact").norms, rtol=1e-5, atol=1e-7)


def test_few_targets_do_little_work(bert):
    """One target of one layer takes as many cotangents as a state is wide, each through that many blocks."""
    for asked, work in (({"targets": [2], "layers": [2]}, 2 * 64), ({}, 3 * TOKENS * 64)):
        told = []
        jacobian(bert, batch([TOKENS]), mode="exact", progress=lambda *done, told=told: told.append(done), **asked)
        assert told[-1] == (work, work)


@pytest.mark.parametrize("memory", [3 * 10**5, 10**6, 4 * 10**6])
def test_memory_changes_no_number(bert, exact, memory):
    assert apart(jacobian(bert, batch([TOKENS]), mode="exact", memory=memory).norms, exact.norms) < 1e-5
    for measure in (jacobian_local, gradient):
        assert apart(measure(bert, batch([TOKENS]), memory=memory).norms, measure(bert, batch([TOKENS])).norms) < 1e-5


def test_memory_follows_the_budget(builtin):
    given = encode(builtin.anatomy, builtin.tokenizer, sentence("the cat sat on a mat")).batch
    ask = {"mode": "exact", "layers": [1]}
    jacobian(builtin.anatomy, given, **ask, sources=[0])
    for budget in (50 * 10**6, 120 * 10**6):
        peak = _peak(lambda budget=budget: jacobian(builtin.anatomy, given, memory=budget, **ask))
        assert peak < 1.3 * budget


def test_memory_of_the_sketch_follows_the_budget(builtin):
    text = "The new bridge over the river will be open to visitors in May."
    given = encode(builtin.anatomy, builtin.tokenizer, sentence(text)).batch
    jacobian(builtin.anatomy, given, mode="sketch", layers=[1], error=0.3)
    for budget in (30 * 10**6, 120 * 10**6):
        assert _peak(lambda budget=budget: jacobian(builtin.anatomy, given, memory=budget)) < 1.3 * budget


def _peak(function):
    """How far the process grows while the function runs."""
    gc.collect()
    process, stop = psutil.Process(), threading.Event()
    sizes = [process.memory_info().rss]

    def watch():
        while not stop.is_set():
            sizes.append(process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        function()
    finally:
        stop.set()
        watcher.join()
    return max(sizes) - sizes[0]


def test_progress_ends_at_the_total(bert):
    seen = []
    jacobian(bert, batch([TOKENS]), mode="exact", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3 * TOKENS * 64, 3 * TOKENS * 64)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"targets": [5]}, "targets 0 to 4, and 5 was"),
        ({"sources": [-1]}, "sources 0 to 4, and -1 was"),
        ({"layers": [0]}, "layers 1 to 3, and 0 was"),
        ({"layers": []}, "layers 1 to 3, and none was"),
        ({"norm": "nuclear"}, "no norm 'nuclear'"),
        ({"mode": "fast"}, "no mode 'fast'"),
        ({"start": "end"}, "no start 'end'"),
        ({"norm": "ones", "mode": "sketch"}, "Only the frobenius norm"),
        ({"mode": "exact", "memory": 1000}, "One tangent of 5 tokens takes"),
        ({"mode": "sketch", "memory": 1000}, "One tangent of 5 tokens takes"),
        ({"mode": "sketch", "error": 0.0}, "share between 0 and 1"),
    ],
)
def test_bad_input_is_one_sentence(bert, asked, sentence):
    with pytest.raises(BadInput, match=sentence):
        jacobian(bert, batch([TOKENS]), **asked)


def test_one_sentence_without_padding(bert):
    with pytest.raises(BadInput, match="one sentence without padding"):
        jacobian(bert, batch([4, 4]))
    ids = batch([4]).ids
    with pytest.raises(BadInput, match="one sentence without padding"):
        jacobian(bert, Batch(ids, torch.tensor([[True, True, True, False]])))


def test_quantised_weights_are_refused():
    anatomy = locate(build("bert"))
    dense = anatomy.blocks[0].output.dense
    dense.weight = torch.nn.Parameter(dense.weight.to(torch.int8), requires_grad=False)
    with pytest.raises(Unsupported, match=r"quantised \(torch.int8\), so it has no derivatives; load it unquantised"):
        jacobian(anatomy, batch([TOKENS]))


def test_weights_that_were_quantised_once_are_not_refused(exact):
    """A GGUF file is dequantised when it is loaded; its configuration still says that it was."""
    anatomy = locate(build("bert"))
    anatomy.model.config.quantization_config = {"quant_method": "gguf"}
    torch.testing.assert_close(jacobian(anatomy, batch([TOKENS]), mode="exact").norms, exact.norms)


def test_blocks_without_a_derivative_are_refused():
    class Opaque(torch.autograd.Function):
        @staticmethod
        def forward(context, states):
            return states.relu()

        @staticmethod
        def backward(context, gradient):
            return gradient

    anatomy = locate(build("bert"))
    activation = anatomy.blocks[0].intermediate.intermediate_act_fn
    activation.forward = Opaque.apply
    with pytest.raises(Unsupported, match="have no forward derivative"):
        jacobian(anatomy, batch([TOKENS]))


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_half_precision_is_taken_to_single(name):
    half = build(name).bfloat16()
    found = jacobian(locate(half), batch([TOKENS]), mode="exact").norms
    expected = jacobian(locate(half.float()), batch([TOKENS]), mode="exact").norms
    assert found.dtype == torch.float32
    assert ((found - expected).abs().max() / expected.max()) < 0.05  # the states themselves are rounded


def test_the_model_is_put_back(bert):
    model = bert.model
    before = model.config._attn_implementation
    model.train()
    jacobian(bert, batch([TOKENS]))
    assert model.training and model.config._attn_implementation == before
    model.eval()


def test_builtin_agrees_with_the_looped_reverse_pass(builtin):
    """One backward pass per component of one state, through the model as it is."""
    anatomy, target, layer = builtin.anatomy, 3, 4
    given = encode(anatomy, builtin.tokenizer, sentence("Paris is lovely")).batch
    norms = jacobian(anatomy, given, mode="exact", layers=[layer], targets=[target]).norms[0, 0]
    states = anatomy.stack(given.ids, token_type_ids=given.segments, output_hidden_states=True).hidden_states
    squares = torch.zeros(given.ids.shape[1])
    for component in range(anatomy.width):
        (row,) = torch.autograd.grad(states[layer][0, target, component], states[0], retain_graph=True)
        squares += row[0].square().sum(dim=-1)
    assert apart(norms, squares.sqrt()) < 1e-5


def test_self_contribution_falls_with_depth(builtin, sample):
    lines = (sample / "pairs.tsv").read_text().splitlines()[1:]
    texts = [line.split("\t")[3] for line in lines[:12]]
    own = []
    for text in sorted(texts, key=len)[:3]:
        given = encode(builtin.anatomy, builtin.tokenizer, sentence(text)).batch
        flow = jacobian(builtin.anatomy, given, error=0.03)
        own.append(flow.contribution.diagonal(dim1=1, dim2=2).mean(dim=-1))
    mean = torch.stack(own).mean(dim=0)
    assert mean[0] > 0.25
    assert (mean[1:] < mean[:-1] + 0.01).all() and mean[-1] < 0.75 * mean[0]
