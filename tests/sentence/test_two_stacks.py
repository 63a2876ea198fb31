"""A source and its prefix: a DataTree of three Datasets whose rows go over both texts, and what a token was made of."""

import numpy as np
import pytest
import torch
import xarray

import whence
from tests.stacks import DISTINCT, KINDS, PAIR, derivative, loaded
from whence.errors import BadInput, Unsupported
from whence.models.given_pair import both_of
from whence.sentence import two_stacks

APART = ["attention", "effective", "effective_correlation", "null", "value_rank", "minimum", "minimum_simplex"]
EVERY = [*APART, "norms", "norms_heads", "mixing", "block", "alti", "contribution", "jacobian", "decomposition"]
EVERY += ["jacobian_local", "gradient", "gradient_local", "origin", "rollout", "value_zeroing", "expansion"]
ENCODER_ALONE = {"self_contribution", "own_largest", "by_distance", "by_neighbour", "rollout", "value_zeroing"}
ENCODER_ALONE |= {"expansion"}


@pytest.fixture(scope="module")
def model():
    return loaded("bart")


@pytest.fixture(scope="module")
def tree(model):
    return whence.measure(model, PAIR, EVERY)


def test_three_datasets_with_their_tokens(tree):
    assert set(tree.children) == {"encoder", "decoder", "cross"}
    assert list(tree["cross"].source_token.values) == ["[CLS]", "ada", "bo", "cy", "dee", "ed", "[SEP]"]
    assert list(tree["cross"].target_token.values) == ["[PAD]", "[CLS]", "fay", "gus", "hal"]
    assert list(tree["decoder"].source_token.values) == list(tree["decoder"].target_token.values)
    assert tree["decoder"].sizes["layer"] == 2 and tree["encoder"].sizes["layer"] == 3
    assert tree.attrs["text"] == PAIR[0] and tree.attrs["prefix"] == PAIR[1]
    both = set(tree["decoder"].data_vars)
    assert set(tree["encoder"].data_vars) - both == ENCODER_ALONE
    assert both - set(tree["cross"].data_vars) == {"decomposition_bias", "decomposition_bias_signed"}
    assert not any(values.isnull().any() for node in ("decoder", "cross") for values in tree[node].data_vars.values())


@pytest.mark.parametrize("name", ["contribution", "decomposition_share", "alti"])
def test_rows_over_both_texts_sum_to_one(tree, name):
    total = tree["decoder"][name].sum("source") + tree["cross"][name].sum("source")
    assert total.values == pytest.approx(1, abs=1e-6)


def test_vectors_and_bias_along_the_state_sum_to_one(tree):
    decoder, cross = tree["decoder"], tree["cross"]
    total = decoder.decomposition_signed.sum("source") + cross.decomposition_signed.sum("source")
    assert (total + decoder.decomposition_bias_signed).values == pytest.approx(1, abs=1e-6)


def test_rows_of_either_attention_sum_to_one_by_themselves(tree):
    for node in ("encoder", "decoder", "cross"):
        for name in ("attention", "minimum_simplex"):
            assert tree[node][name].sum("source").values == pytest.approx(1, abs=1e-5)


def test_effective_attention_does_the_same_to_the_values(model):
    """A_eff T = A T where there are more sources than dimensions of a head, and null is the rest."""
    small = loaded("bart", d_model=32, decoder_attention_heads=8, encoder_attention_heads=8)
    found = whence.measure(small, PAIR, ["attention", "effective", "null"])["cross"]
    assert float(abs(found.null).max()) > 1e-3
    assert np.allclose(found.effective + found.null, found.attention)
    batch = both_of(small, PAIR).batch
    from whence.models.capture import trace

    for layer, block in enumerate(trace(small.anatomy, batch).blocks, start=1):
        values = block.cross.grouped_values[0].numpy()
        assert np.allclose(found.effective.sel(layer=layer).values @ values, block.cross.attention[0].numpy() @ values)


def test_the_prefix_may_be_empty_or_ids(model):
    begun = whence.measure(model, (PAIR[0], ""), ["mixing"])["decoder"]
    assert list(begun.target_token_id.values) == [0, 2]
    as_ids = whence.measure(model, (PAIR[0], [0, 2, 12, 13, 14]), ["mixing", "contribution"])
    as_text = whence.measure(model, PAIR, ["mixing", "contribution"])
    assert as_ids["cross"].contribution.equals(as_text["cross"].contribution)


def test_some_targets_and_layers_are_those_of_all(model, tree):
    names = ["attention", "mixing", "contribution", "decomposition", "gradient", "norms", "jacobian_local"]
    some = whence.measure(model, PAIR, names, layers=[2], targets=[-1, 2])
    assert some["encoder"].layer.values == [2] and list(some["cross"].target.values) == [2, 4]
    for node in ("decoder", "cross"):
        for name in some[node].data_vars:
            whole = tree[node][name].sel(layer=[2], target=[2, 4])
            kept = whole.sel(analysis=some[node].analysis.values) if "analysis" in whole.dims else whole
            xarray.testing.assert_allclose(some[node][name].drop_attrs(), kept.drop_attrs(), rtol=1e-6)
    with pytest.raises(BadInput, match="of one of them none was asked for"):
        whence.measure(model, PAIR, ["mixing"], layers=[3])


def test_ratios_count_the_source_among_the_others(tree):
    """|source| and |others| of the same total: what comes from others cannot be less than nothing came from outside."""
    mixing, across = tree["decoder"].mixing, tree["cross"].mixing
    assert ((mixing > 0) & (mixing < 1)).all() and ((across > 0) & (across < 1)).all()
    first = mixing.sel(analysis="attnresln_n", target=0)
    assert np.allclose(first, across.sel(analysis="attnresln_n", target=0)), "the first token has no other prefix"
    assert "source text" in tree["cross"].mixing.attrs["long_name"]


def test_sketches_say_that_they_are(model):
    found = whence.measure(model, PAIR, [whence.Contribution(mode="sketch", error=0.2)])
    assert found["cross"].contribution.attrs["estimate"] == 1 and bool((found["cross"].contribution_se > 0).any())
    total = found["decoder"].contribution.sum("source") + found["cross"].contribution.sum("source")
    assert total.values == pytest.approx(1, abs=1e-6)
    with pytest.raises(Unsupported, match="two sums of embeddings"):
        whence.measure(model, PAIR, [whence.Contribution(start="sum")])


def test_progress_only_goes_forward(model):
    seen = []
    whence.measure(model, PAIR, ["gradient"], progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen) and 0 < seen[-1] <= 1


def test_little_memory_is_refused_before_the_work(model):
    with pytest.raises(BadInput, match="memory"):
        whence.measure(model, PAIR, ["attention"], memory_limit=10)


@pytest.mark.parametrize("name", KINDS)
def test_parts_of_both_texts_add_up_to_the_models_own_logit_at_every_layer(name):
    model = loaded(name)
    ds = whence.why(model, PAIR).squeeze("predicted")
    border = int((ds.source_stack == "encoder").sum())
    source, prefix = (torch.tensor(part)[None] for part in np.split(ds.source_token_id.values, [border]))
    with torch.no_grad():
        logits = model.model(input_ids=source, decoder_input_ids=prefix).logits[0, -1]
    assert float(ds.logit) == pytest.approx(float(logits.max()), rel=1e-5) and int(ds.place) == 1
    assert (ds.share.sum("source") + ds.bias).values == pytest.approx(float(ds.logit), rel=1e-5, abs=1e-5)
    assert list(ds.layer_stack.values) == ["encoder"] * 4 + ["decoder"] * 2
    last = ds.share.isel(layer=-1).values
    assert last[-1] and not last[:-1].any(), "behind the last layer the last token alone is read"
    assert abs(ds.share.isel(layer=3, source=slice(0, border))).sum() > 0


@pytest.mark.parametrize("name", DISTINCT)
def test_dependence_is_the_gradient_of_the_models_own_log_probability(name):
    model = loaded(name)
    ds = whence.why(model, PAIR, measures="dependence").squeeze("predicted")
    jacobian = derivative(model.anatomy, both_of(model, PAIR).batch)[-1]
    last = torch.tensor(_last(model)).requires_grad_()
    finished = model.anatomy.finish(last)
    logs = model.anatomy.head(finished).log_softmax(-1)[int(ds.predicted_token_id)]
    gradient = torch.autograd.grad(logs, last)[0]
    expected = torch.einsum("m,smn->sn", gradient, jacobian).norm(dim=-1).detach()
    assert ds.dependence.sel(layer=0).values == pytest.approx(expected.numpy(), rel=1e-5, abs=1e-9)


def _last(model) -> np.ndarray:
    from whence.models.capture import trace

    return trace(model.anatomy, both_of(model, PAIR).batch).blocks[-1].output[0, -1].numpy()


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_answers_given_and_generated(name):
    model = loaded(name)
    generated = whence.why(model, PAIR[0], generate=3, through="generated", spans="word")
    assert generated.sizes["predicted"] == 3 and generated.source_is_answer.sum() == 3
    assert (generated.share.sum("source") + generated.bias - generated.logit).values == pytest.approx(0, abs=1e-5)
    assert generated.span_share.sum("span").values == pytest.approx(generated.share.sum("source").values)
    assert generated.carried.sum("source").values == pytest.approx(1, abs=1e-6)
    with torch.no_grad():
        source = torch.tensor(generated.source_token_id.values[generated.source_stack.values == "encoder"])[None]
        start = torch.tensor([[0, 2]])
        own = model.model.generate(source, decoder_input_ids=start, max_new_tokens=3, do_sample=False, num_beams=1)
    assert list(generated.predicted_token_id.values) == own[0, 2:].tolist()
    given = whence.why(model, (PAIR[0], "fay"), answer=" gus hal", measures="share")
    assert list(given.predicted_token.values) == ["gus", "hal"] and given.attrs["answer"].strip() == "gus hal"
    whole = whence.why(model, PAIR, measures="share")
    assert given.source_token_id.values.tolist() == whole.source_token_id.values.tolist()
    one = whence.why(model, (PAIR[0], "fay"), answer=" gus hal", measures="share", together=True)
    assert one.share.values == pytest.approx(given.share.sum("predicted", keepdims=True).values)
    rather = whence.why(model, PAIR, token="ada", against="bo", measures="share")
    assert (rather.share.sum("source") + rather.bias).values == pytest.approx(float(rather.logit.squeeze()), abs=1e-5)


def test_what_cannot_be_asked_of_two_stacks_is_refused(model):
    with pytest.raises(Unsupported, match="heads and feed-forward are not given of two stacks"):
        whence.why(model, PAIR, components=True)
    with pytest.raises(BadInput, match="asked of an encoder"):
        whence.why(model, PAIR[0], similar_to=PAIR[1])
    with pytest.raises(BadInput, match="give both as a tuple"):
        whence.why(model, PAIR[0])
    with pytest.raises(BadInput, match="predicts from the tokens of the prefix, which are 7 and on"):
        whence.why(model, PAIR, position=3)
    with pytest.raises(BadInput, match="goes without token="):
        whence.why(model, PAIR[0], generate=2, token="ada")


@pytest.mark.parametrize("name", ["t5", "t5-unscaled", "marian", "pegasus"])
def test_the_head_step_by_step_gives_the_models_own_logits(name):
    model = loaded(name)
    ds = whence.lm_head(model, PAIR, position=[0, -1], layer="all")
    batch = both_of(model, PAIR).batch
    with torch.no_grad():
        logits = model.model(input_ids=batch.source.ids, decoder_input_ids=batch.prefix.ids).logits[0, [0, -1]]
    assert ds.scores.isel(layer=-1, stage=-1).values == pytest.approx(logits.numpy(), rel=1e-5, abs=1e-6)
    assert list(ds.position_token.values) == ["[PAD]", "hal"] and ds.sizes["layer"] == 3


def test_the_encoder_runs_once_for_what_is_read_off_blocks(model, monkeypatch):
    """What it gave is handed to the decoder, to the last bit the same as what the decoder's own pass would give it."""
    block, calls, names = model.encoder.anatomy.blocks[0], [], ["mixing", "attention", "value_rank"]
    own = block.forward
    monkeypatch.setattr(block, "forward", lambda *args, **kwargs: calls.append(1) or own(*args, **kwargs))
    once = whence.measure(model, PAIR, names)
    assert len(calls) == 1
    monkeypatch.setattr(two_stacks, "halves_of", lambda *given, own=two_stacks.halves_of: own(*given[:3]))
    twice = whence.measure(model, PAIR, names)
    assert len(calls) == 3
    for side in ("encoder", "decoder", "cross"):
        xarray.testing.assert_identical(once[side].to_dataset(), twice[side].to_dataset())
