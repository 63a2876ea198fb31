"""The attention sink: rows that rest on a decoder's first token, labelled by what attention itself says."""

import numpy as np
import pytest
import torch

import whence
from tests.tiny import model as tiny
from whence.measures.attention.sink import sink

TEXT = "ada bo cy dee ed fay ."


def naive(attention):
    """Row by row: more than half of what the row has, the first row left out."""
    found = np.zeros(attention.shape[:-1], dtype=bool)
    for place in np.ndindex(found.shape):
        found[place] = place[-1] > 0 and attention[place][0] > attention[place].sum() / 2
    return found


def test_half_is_not_most_and_rows_may_sum_to_less_than_one():
    rows = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.3, 0.1, 0.1]])
    assert sink(rows[..., 0], rows.sum(dim=-1), torch.arange(3)).tolist() == [False, False, True]
    assert sink(rows.flip(1)[..., 0], rows.sum(dim=-1), torch.arange(3)).tolist() == [False, False, False]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def decoder(request):
    return tiny(request.param)


@pytest.fixture(scope="module")
def dataset(decoder):
    return whence.measure(decoder, TEXT, ["attention", "mixing"])


def test_labels_are_those_of_the_attention(dataset):
    assert dataset.sink.dims == ("layer", "target") and dataset.head_sink.dims == ("layer", "head", "target")
    assert dataset.sink.dtype == dataset.head_sink.dtype == bool
    assert np.array_equal(dataset.head_sink.values, naive(dataset.attention.values))
    assert np.array_equal(dataset.sink.values, naive(dataset.attention.mean("head").values))
    assert dataset.head_sink.any() and not dataset.head_sink.all()
    assert "half of the row's attention" in dataset.sink.attrs["long_name"]


@pytest.mark.parametrize("measures", [["mixing"], ["norms"], ["rollout_attn_w"], ["effective"]])
def test_labels_stand_beside_whatever_is_measured_of_attention(decoder, dataset, measures):
    found = whence.measure(decoder, TEXT, measures, layers=[2], targets=[1, -1])
    assert found.sink.equals(dataset.sink.sel(layer=[2], target=found.target).drop_vars("head_sink", errors="ignore"))
    assert ("head_sink" in found.coords) == ("head" in found.dims)


def test_rows_can_be_left_out_by_the_label(dataset):
    kept = dataset.attention.where(~dataset.head_sink)
    assert int(kept.isnull().all("source").sum()) == int(dataset.head_sink.sum())


def test_what_has_no_rows_has_no_label(decoder):
    assert not {"sink", "head_sink"} & set(whence.measure(decoder, TEXT, ["value_rank"]).coords)
    assert "sink" not in whence.measure(decoder, TEXT, ["gradient"]).coords


def test_an_encoder_has_none(builtin):
    found = whence.measure(builtin, "Paris is the capital of [MASK].", ["attention"])
    assert not {"sink", "head_sink"} & set(found.coords)


def test_labels_survive_a_file(dataset, tmp_path):
    import xarray

    dataset.to_netcdf(tmp_path / "result.nc")
    with xarray.open_dataset(tmp_path / "result.nc") as back:
        assert back.sink.dtype == bool and np.array_equal(back.head_sink.values, dataset.head_sink.values)


def test_norms_shrink_the_sink_of_a_trained_decoder(smollm2):
    """docs/sink.md: by weight the first token takes most, by length of what it hands over much less."""
    found = whence.measure(smollm2, "The old man sat by the window and watched the rain.", ["norms"])
    rows = found.norms.sel(target=slice(1, None))
    share = (rows / rows.sum("source")).sel(source=0).where(found.sink.sel(target=slice(1, None)))
    mean = share.mean(["layer", "target"])
    assert found.sink.mean() > 0.5
    assert mean.sel(analysis="attn_w") > 0.6 and mean.sel(analysis="attnres_n") < 0.15
    assert mean.sel(analysis="attn_n") < mean.sel(analysis="attn_w") - 0.2
