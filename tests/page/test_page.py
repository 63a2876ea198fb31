"""The page: whole, closed to the outside, true to the data, safe with any token."""

import base64
import hashlib
import json
import re
import zlib

import numpy as np
import pytest
import xarray

from whence.errors import BadInput
from whence.measures.registry import ANALYSES, ATTENTION, Measure, Variable, variables
from whence.measures.table import MEASURES
from whence.page.arrays import EXACT_UP_TO, MISSING
from whence.page.bundle import MODULES
from whence.page.payload import PANELS, payload
from whence.page.report import page, report
from whence.plot.style import SINK

HOSTILE = ["[CLS]", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "שלום", "\u200b", "\ud83d"]
HOSTILE += ["日本語", "a" * 300, "\u202eevil", "<!--", "\x00", "", "'\"`${x} $data", "[SEP]"]
TOKENS = ["[CLS]", "the", "cat", "sat", "##s", "[SEP]"]
PER_HEAD, PER_LAYER = ("layer", "head", "target", "source"), ("layer", "target", "source")


def sentence(tokens: list[str], layers: int = 2, heads: int = 3, causal: int = 0) -> xarray.Dataset:
    numbers, size = np.random.default_rng(0), len(tokens)
    attention = numbers.random((layers, heads, size, size)).astype(np.float32)
    attention /= attention.sum(axis=-1, keepdims=True)
    null = numbers.normal(0, 0.05, attention.shape).astype(np.float32)
    names, special = np.array(tokens, dtype=str), np.array([token.startswith("[") for token in tokens])
    coords = {"layer": np.arange(1, layers + 1), "head": np.arange(heads), "analysis": ["attn_w", "attnresln_n"]}
    for side in ("target", "source"):
        coords |= {f"{side}_token": (side, names), f"{side}_word": (side, names), f"{side}_is_special": (side, special)}
    return xarray.Dataset(
        {
            "attention": (PER_HEAD, attention),
            "effective": (PER_HEAD, attention - null),
            "null": (PER_HEAD, null),
            "value_rank": (("layer", "head"), np.full((layers, heads), 4)),
            "attn_w": (PER_LAYER, attention.mean(axis=1)),
            "contribution": (PER_LAYER, attention.mean(axis=1)),
            "mixing": (("analysis", "layer", "target"), numbers.random((2, layers, size), dtype=np.float32)),
        },
        coords,
        {"model": "a/model", "causal": causal, "text": " ".join(tokens)},
    )


def embedded(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def unpacked(variable: dict) -> np.ndarray:
    """The array as the page reads it."""
    if variable["kind"] == "product":
        left, right = map(unpacked, variable["factors"])
        return (left @ right).reshape(variable["shape"])

    def numbers(data: str, dtype: str) -> np.ndarray:
        planes = np.frombuffer(zlib.decompress(base64.b64decode(data)), np.uint8)
        return planes.reshape(np.dtype(dtype).itemsize, -1).T.copy().view(dtype).ravel()

    if variable["kind"] == "float32":
        return numbers(variable["data"], "<f4").reshape(variable["shape"])
    scale, steps = numbers(variable["scale"], "<f4"), numbers(variable["data"], "<i2").astype(np.float32)
    steps[steps == MISSING] = np.nan
    return (steps.reshape(len(scale), -1) * scale[:, None]).reshape(variable["shape"])


def test_the_file_is_written_and_its_path_returned(tmp_path):
    written = report(sentence(TOKENS), tmp_path / "page.html")
    assert written == tmp_path / "page.html"
    assert written.read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (sentence(TOKENS).isel(layer=0), "a Dataset without the axis layer was"),
        (xarray.Dataset(), "without the axis layer and target"),
        (7, "int was given"),
    ],
)
def test_what_is_no_page(tmp_path, given, says):
    with pytest.raises(BadInput, match=says):
        report(given, tmp_path / "page.html")


@pytest.mark.parametrize("path", [None, "", "page\0.html"])
def test_what_is_no_path(path):
    with pytest.raises(BadInput, match=r"is written to a path|cannot be written"):
        report(sentence(TOKENS), path)


def test_what_is_no_reason(tmp_path):
    with pytest.raises(BadInput, match=r"what whence\.why gives, and int was given"):
        report(sentence(TOKENS), tmp_path / "page.html", reasons=0)


def test_nothing_is_loaded_from_anywhere():
    text = page(sentence(TOKENS))
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(
        r"<(?:link|iframe|object|embed|base)\b|\ssrc=|@import|url\((?!#)|\bfetch\(|XMLHttpRequest", text
    )


def test_the_policy_allows_exactly_the_inlined_style_and_script():
    text = page(sentence(TOKENS))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag, directive in (('<script type="module">', "script-src"), ("<style>", "style-src")):
        inside = text.split(tag)[1].split(f"</{tag[1:].split()[0].rstrip('>')}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_the_modules_became_one_script():
    script = page(sentence(TOKENS)).split('<script type="module">')[1].split("</script>")[0]
    assert not re.search(r"^\s*(?:import|export)\b", script, re.M)
    assert "innerHTML" not in script
    assert "insertAdjacentHTML" not in script
    views = {panel for panel in PANELS if f"const module_{panel} = " in script}
    assert views == set(PANELS) - {"alignment"}  # of two texts alone


def test_hostile_tokens_stay_text():
    text = page(sentence(HOSTILE))
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img" not in text
    assert "alert(1)</script>" not in text
    text.encode("utf-8")
    assert [token["text"] for token in embedded(text)["tokens"]][:3] == HOSTILE[:3]
    assert all(token["shown"].strip() for token in embedded(text)["tokens"])


@pytest.mark.parametrize("name", ["attention", "null", "contribution", "mixing", "value_rank"])
def test_small_arrays_come_back_exactly(name):
    ds = sentence(TOKENS)
    assert np.array_equal(unpacked(embedded(page(ds))["variables"][name]), ds[name].values.astype(np.float32))


def test_large_arrays_come_back_to_a_ten_thousandth_of_each_map():
    ds = sentence(["a"] * 80, heads=12)
    ds["attention"].values[0, 0, 0, 0] = np.nan
    variable = payload(ds)["variables"]["attention"]
    values = ds["attention"].values
    assert values.size > EXACT_UP_TO
    assert variable["kind"] == "int16"
    error = np.abs(unpacked(variable) - values)
    assert np.isnan(error[0, 0, 0, 0])
    assert np.nanmax(error / np.nanmax(np.abs(values), axis=(-2, -1), keepdims=True)) <= 0.51e-4


def attended(width: int) -> xarray.Dataset:
    """Sixty tokens, more than a head of this width tells apart: what is effective is attention times a projection."""
    ds = sentence(["a"] * 60, heads=12)
    values = np.linalg.qr(np.random.default_rng(1).normal(size=(2, 12, 60, width)))[0]
    attention = ds["attention"].values
    effective = (attention @ values @ values.mT).astype(np.float32)
    return ds.assign(effective=(PER_HEAD, effective), null=(PER_HEAD, attention - effective))


def test_parts_of_attention_are_written_once():
    ds = attended(width=6)
    found = payload(ds)["variables"]
    assert found["effective"]["kind"] == "product" and found["effective"]["factors"][0]["shape"] == [24, 60, 6]
    assert found["null"]["kind"] == "difference" and found["null"]["of"] == ["attention", "effective"]
    assert found["null"]["signed"] and found["null"]["dims"] == list(PER_HEAD)
    read = {name: unpacked(found[name]) for name in ("attention", "effective")}
    read["null"] = read["attention"] - read["effective"]
    for name, values in read.items():
        largest = np.abs(ds[name].values).max(axis=(-2, -1), keepdims=True)
        assert (np.abs(values - ds[name].values) / largest).max() < 1e-3, name
    size = {name: len(json.dumps(found[name])) for name in read}
    assert sum(size.values()) < 1.3 * size["attention"]


@pytest.mark.parametrize("why", ["of full rank", "not the sum", "almost nothing", "a part missing"])
def test_parts_of_attention_that_have_to_be_written(why):
    ds = attended(width=20 if why == "of full rank" else 6)
    if why == "not the sum":
        ds["null"].values[0, 3] += 0.01
    if why == "almost nothing":  # rounding would be all there is to see
        ds = ds.assign(effective=ds["attention"], null=ds["null"] * 1e-6)
    if why == "a part missing":
        ds = ds.drop_vars("attention")
    found = payload(ds)["variables"]
    assert (found["effective"]["kind"] == "int16") == (why in ("of full rank", "almost nothing"))
    if why == "of full rank":
        return
    assert found["null"]["kind"] == "int16"
    error = np.abs(unpacked(found["null"]) - ds["null"].values)
    assert (error <= 0.51e-4 * np.abs(ds["null"].values).max(axis=(-2, -1), keepdims=True)).all()


def test_axes_are_in_one_order_whatever_the_dataset_has():
    ds = sentence(TOKENS)
    turned = payload(ds.transpose("source", "target", "head", "layer", "analysis"))["variables"]["attention"]
    assert turned["dims"] == list(PER_HEAD)
    assert np.array_equal(unpacked(turned), ds["attention"].values)


def test_signs_are_known():
    variables = payload(sentence(TOKENS))["variables"]
    assert variables["null"]["signed"]
    assert not variables["attention"]["signed"]


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        (["mixing"], ["left", "compare"]),
        (["contribution"], ["left", "whence", "flow", "maps", "compare"]),
        (["attn_w"], ["whence", "flow", "maps", "compare"]),
        (["attention"], ["left", "whence", "flow", "maps", "heads", "compare"]),
        (["effective"], ["flow", "maps", "heads"]),
    ],
)
def test_panels_appear_only_when_their_variables_are_there(kept, shown):
    assert embedded(page(sentence(TOKENS)[kept]))["panels"] == shown


def test_the_title_says_the_finding():
    ds = sentence(TOKENS)
    own = np.diagonal(ds["contribution"].values[-1]).mean()
    assert f"<title>After layer 2, a token is still {100 * own:.0f}\N{NO-BREAK SPACE}% itself on average" in page(ds)


def resting(**more) -> xarray.Dataset:
    """A decoder's sentence in which rows 1 and 2 of layer 2 rest on the first token, in head 0 all but the first."""
    ds = sentence(["The", "cat", "sat", "on"], causal=1)
    by_layer, by_head = np.zeros((2, 4), dtype=bool), np.zeros((2, 3, 4), dtype=bool)
    by_layer[1, 1:3], by_head[1, 0, 1:] = True, True
    flags = {"sink": (("layer", "target"), by_layer), "head_sink": (("layer", "head", "target"), by_head)}
    return ds.assign_coords(flags | {"target": range(4), "source": range(4)} | more)


def test_rows_that_rest_on_the_first_token_are_marked_in_the_words_of_the_table():
    found = payload(resting())["sinks"]
    assert found["rows"] == ["0000", "0110"] and found["heads"][1] == ["0111", "0000", "0000"]
    assert found["words"] == SINK
    assert payload(sentence(TOKENS))["sinks"] == {}


def test_some_targets_make_a_page_with_empty_rows():
    whole = resting()
    data = payload(whole.isel(target=[1, 3]))
    assert data["rows"] == [1, 3] and payload(whole)["rows"] is None
    assert [token["text"] for token in data["tokens"]] == ["The", "cat", "sat", "on"]
    assert data["sinks"]["rows"] == ["0000", "0100"] and "flow" not in data["panels"] and data["absent"] == {}
    attention = unpacked(data["variables"]["attention"])
    assert np.isnan(attention[:, :, [0, 2]]).all()
    assert np.array_equal(attention[:, :, [1, 3]], whole["attention"].values[:, :, [1, 3]])


def test_some_targets_without_a_map_are_refused():
    with pytest.raises(BadInput, match="ask for a map as well, such as attention"):
        payload(resting()[["mixing"]].isel(target=[1, 3]))


def test_causal_is_said_and_may_be_missing():
    assert payload(sentence(TOKENS, causal=1))["causal"] is True
    ds = sentence(TOKENS)
    ds.attrs = {}
    assert payload(ds)["causal"] is False


def test_methods_and_maps_come_best_first():
    data = payload(sentence(TOKENS))
    left = [row for row in data["fields"] if row["kind"] != "sources"]
    assert [row["key"] for row in left] == ["contribution", "mixing attnresln_n", "mixing attn_w"]
    assert [row["place"] for row in left] == [0, 1, 0]
    assert data["maps"] == ["contribution", "attn_w"]
    assert [row["variable"] for row in data["fields"] if row["kind"] == "sources"] == ["contribution", "attn_w"]


def test_a_flow_is_drawn_by_the_decomposition_if_there_is_one():
    ds = sentence(TOKENS)
    assert payload(ds)["flows"] == ["attn_w", "attention", "effective", "null", "contribution"]
    vectors = dict.fromkeys(("decomposition", "decomposition_share"), ds["contribution"])
    data = payload(ds.assign(vectors))
    assert data["flows"][0] == "decomposition_share" and "decomposition" not in data["flows"]
    assert [row["variable"] for row in data["fields"]][:3] == ["contribution", "mixing", "mixing"]
    gap = ds["attn_w"].where(ds["layer"] > 1)
    assert "attn_w" not in payload(ds.assign(attn_w=gap))["flows"]


def test_what_is_multiplied_over_layers_says_so_wherever_it_is_shown():
    data = payload(sentence(TOKENS)[["contribution"]].rename(contribution="rollout_attn_n"))
    caution, style = "vectors that cancel still add up", data["styles"]["rollout_attn_n"]
    assert caution in style["meaning"] and caution in data["wordings"][style["wording"]]["paths"]
    assert data["fields"] and all(caution in row["meaning"] for row in data["fields"])
    direct = payload(sentence(TOKENS))
    layered, whole = (direct["wordings"][direct["styles"][name]["wording"]] for name in ("attn_w", "contribution"))
    assert caution in layered["paths"] and caution not in whole["paths"]
    assert caution in variables()["rollout_attn_n"].about


def test_what_can_be_drawn_layer_by_token_says_how_it_is_read_and_spoken_of():
    rows = {row["key"]: row for row in payload(sentence(TOKENS))["fields"]}
    assert rows["contribution"]["read"] == "own" and rows["contribution"]["since_input"]
    assert rows["mixing attn_w"]["label"] == "from others: weights: attention"
    assert rows["mixing attn_w"]["style"] == "attn_w" and rows["mixing attn_w"]["percent"]
    assert rows["sources attn_w"]["read"] == "row" and not rows["sources attn_w"]["since_input"]
    for row in rows.values():
        unfilled = set(re.findall(r"\{(\w+)\}", " ".join(str(value) for value in row.values())))
        assert unfilled <= {"layer", "token", "value", "mean"}


@pytest.mark.parametrize(
    ("kept", "read", "said"),
    [
        (["attention"], ["others", "row"], "attention paid to others"),
        (["rollout"], ["own", "row"], "own share: weights: attention, rolled out"),
        (["jacobian"], ["row"], "sources: Jacobian norm"),
        (["effective"], [], ""),
    ],
)
def test_what_is_left_of_a_token_by_what_there_is(kept, read, said):
    ds = sentence(TOKENS)
    ds = ds.assign(rollout_attn_w=ds["attn_w"], jacobian=3 * ds["attn_w"])
    found = payload(ds[["rollout_attn_w" if name == "rollout" else name for name in kept]])["fields"]
    assert [row["read"] for row in found] == read
    assert not said or said in [row["label"] for row in found]


@pytest.fixture
def foreign(monkeypatch):
    """A measure of somebody else's, with a map a layer, a map a head, a number a head and a number a token."""
    dims = {"closeness": PER_LAYER, "closeness_heads": PER_HEAD, "sharpness": PER_HEAD[:2], "depth": PER_LAYER[:2]}
    rows = {
        name: Variable(
            axes, "share" if "source" in axes else "bits", f"{name.replace('_', ' ')} of somebody else's", ATTENTION
        )
        for name, axes in dims.items()
    }
    monkeypatch.setitem(MEASURES, "foreign", Measure("Somebody else's.", rows, ("vaswani2017",), "nowhere:none"))
    ds = sentence(TOKENS)
    sizes = {name: tuple(ds.sizes[dim] for dim in axes) for name, axes in dims.items()}
    numbers = np.random.default_rng(2)
    return ds.assign({name: (dims[name], numbers.random(sizes[name], np.float32)) for name in dims})


def test_somebody_elses_variables_appear_by_themselves(foreign):
    data = payload(foreign)
    assert "closeness" in data["maps"] and "closeness_heads" in data["head_maps"]
    assert {"closeness", "closeness_heads", "sharpness", "depth"} <= set(data["variables"])
    rows = {row["key"]: row for row in data["fields"]}
    assert rows["sources closeness"]["title"] == "closeness"
    assert rows["sources closeness_heads"]["title"] == "closeness heads, mean of heads"
    assert rows["depth"]["label"] == "depth" and not rows["depth"]["percent"]
    assert data["styles"]["closeness"]["meaning"] == "Closeness of somebody else's."
    assert data["notes"] == ["value_rank", "sharpness"] and data["styles"]["sharpness"]["note"] == "sharpness {value}"


def test_nothing_about_a_measure_is_written_in_the_script():
    """No name of a variable, analysis or measure stands there as a string."""
    words = {*MEASURES, *variables(), *ANALYSES}
    files = sorted(MODULES.rglob("*.js"))
    assert len(files) > 20
    for file in files:
        strings = re.findall(r"\"([^\"\n]*)\"|`([^`]*)`", file.read_text(encoding="utf-8"))
        written = [re.sub(r"\$\{[^}]*\}", "", "".join(pair)) for pair in strings]
        found = {word for text in written for word in re.findall(r"[a-z_]+", text)}
        assert not found & words, (file.name, found & words)
