"""The terminal picture: right numbers, never wider than the window, whatever the tokens."""

import io

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests import tiny

import whence
from whence.measures.table import MEASURES
from whence.plot import finding, legible, style
from whence.plot.palette import amount, ink_on, signed
from whence.plot.predictions import predictions
from whence.plot.style import STYLES
from whence.plot.terminal import picture

TOKENS = ["[CLS]", "the", "old", "cat", "sat", "##s", "[SEP]"]


def sentence(tokens: list[str], layers: int = 3, maps: tuple[str, ...] = ("mixing", "contribution")) -> xarray.Dataset:
    numbers, size = np.random.default_rng(0), len(tokens)
    share = numbers.random((layers, size, size))
    share /= share.sum(axis=-1, keepdims=True)
    per_head = numbers.random((layers, 2, size, size))
    variables = {
        "mixing": (("analysis", "layer", "target"), numbers.random((2, layers, size))),
        "contribution": (("layer", "target", "source"), share),
        "attention": (("layer", "head", "target", "source"), per_head / per_head.sum(axis=-1, keepdims=True)),
    }
    special = np.array([token.startswith("[") for token in tokens])
    names = np.array(tokens, dtype=object)
    coords = {"layer": np.arange(1, layers + 1), "analysis": ["attn_w", "attnresln_n"]}
    for side in ("target", "source"):
        coords |= {f"{side}_token": (side, names), f"{side}_word": (side, names), f"{side}_is_special": (side, special)}
    return xarray.Dataset({name: variables[name] for name in maps}, coords)


def test_plain_numbers_are_the_mixing_ratios_with_the_last_layer_on_top():
    ds = sentence(TOKENS)
    lines = str(picture(ds, 120, color=False)).splitlines()
    head = next(place for place, line in enumerate(lines) if line.split() == ["layer", "mean", *TOKENS])
    expected = ds["mixing"].loc[{"analysis": "attnresln_n"}].values
    for row, layer in enumerate((3, 2, 1)):
        numbers = [int(number) for number in lines[head + 1 + row].split()]
        assert numbers[0] == layer
        assert numbers[1] == round(100 * expected[layer - 1].mean())
        assert numbers[2:] == [round(100 * share) for share in expected[layer - 1]]


def test_columns_are_aligned_under_their_tokens():
    lines = str(picture(sentence(TOKENS), 120, color=False)).splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("layer"))
    assert len({len(line) for line in lines[head : head + 4]}) == 1


def test_main_sources_are_sorted_shares_of_the_last_layer():
    ds = sentence(TOKENS)
    text = str(picture(ds, 60, color=False))
    row = ds["contribution"].values[-1][3]
    main = [("itself" if source == 3 else TOKENS[source], round(100 * row[source])) for source in np.argsort(-row)[:3]]
    assert "cat <- " + ", ".join(f"{token} {share}" for token, share in main) in text


def resting() -> xarray.Dataset:
    """A decoder's sentence; in the last layer the rows of `cat` and `on` rest on the first token."""
    ds = sentence(["The", "cat", "sat", "on"], layers=2)
    flags = np.array([[False] * 4, [False, True, False, True]])
    ds = ds.assign_coords(sink=(("layer", "target"), flags), target=range(4), source=range(4)).assign_attrs(causal=1)
    ds["contribution"].values[-1, 3] = [0.1, 0.3, 0.2, 0.4]  # the first token is the least of the sources of `on`
    return ds


def test_rows_that_rest_on_the_first_token_are_labelled_at_it():
    text = str(picture(resting(), 200, color=False))
    assert "“The”, the first token, is an attention sink" in text and "in 33 % of the rows" in text
    assert "on <- itself 40, cat 30, sat 20, The 10 (sink)" in text
    entry = {line.split(" <- ")[0].strip(): line for line in text.replace("   ", "\n").splitlines() if " <- " in line}
    assert "(sink)" in entry["cat"] and "(sink)" not in entry["sat"] and "(sink)" not in entry["The"]
    assert next(iter(entry)) == "on"  # the last token first: the prediction is made from it
    assert "sink" not in str(picture(sentence(TOKENS), 200, color=False))


def test_a_few_targets_are_those_of_their_own_rows():
    """Their own weight stands at their place in the text, not at the place of their row."""
    ds = sentence(TOKENS, maps=("attention",)).assign_coords(target=range(7), source=range(7))
    few = ds.isel(target=[2, 5])
    own = ds["attention"].values[:, :, [2, 5], [2, 5]].mean(axis=1)
    lines = str(picture(few, 120, color=False)).splitlines()
    for layer in (1, 2, 3):
        numbers = next(line for line in lines if line.startswith(f"    {layer}")).split()
        assert numbers[2:] == [f"{100 * (1 - share):.0f}" for share in own[layer - 1]]
    few = sentence(TOKENS).assign_coords(target=range(7), source=range(7)).isel(target=[2, 5])
    text = str(picture(few, 120, color=False))
    row = few["contribution"].values[-1]
    assert f"a token is still {50 * (row[0, 2] + row[1, 5]):.0f} % itself" in text
    assert "old <- " in text and "##s <- " in text and "cat <- " not in text


def test_without_mixing_the_attention_paid_to_others_is_shown_and_named():
    ds = sentence(TOKENS, maps=("attention",))
    text = str(picture(ds, 120, color=False))
    own = np.diagonal(ds["attention"].values, axis1=-2, axis2=-1).mean(axis=1)
    assert "attention paid to other tokens" in text
    assert f"{100 * (1 - own[2]).mean():.0f}" in next(line for line in text.splitlines() if line.startswith("    3"))


def test_plain_text_is_ascii_apart_from_tokens():
    assert str(picture(sentence(TOKENS), 70, color=False)).isascii()


def test_color_has_backgrounds_and_plain_has_none():
    ds = sentence(TOKENS)
    assert any("on #" in str(span.style) for span in picture(ds, 80, color=True).spans)
    assert not picture(ds, 80, color=False).spans


def test_special_tokens_are_dim_italics():
    text = picture(sentence(TOKENS), 80, color=True)
    place = text.plain.index("[CLS]")
    styles = [str(span.style) for span in text.spans if span.start <= place < span.end]
    assert any("italic" in style and "dim" in style for style in styles)


def test_equal_tokens_are_told_apart_by_place():
    text = str(picture(sentence(["the", "cat", "the"]), 80, color=False))
    assert "the(0) <-" in text
    assert "the(2) <-" in text
    assert "cat <-" in text


def test_missing_values_are_dashes():
    ds = sentence(TOKENS)
    ds["mixing"].values[:, 2, 0] = np.nan
    lines = str(picture(ds, 120, color=False)).splitlines()
    assert next(line for line in lines if line.startswith("    3")).split()[2] == "-"


tokens = st.lists(
    st.one_of(st.sampled_from(["日本語", "שלום", "\u200b", "a" * 90, "", "[SEP]"]), st.text(max_size=12)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(tokens=tokens, width=st.integers(1, 130), color=st.booleans(), layers=st.integers(1, 3))
def test_no_line_is_wider_than_the_window(tokens, width, color, layers):
    text = picture(sentence(tokens, layers), width, color)
    assert max(cell_len(line) for line in text.plain.split("\n")) <= width


def test_a_console_of_that_width_adds_no_line():
    text, out = picture(sentence(TOKENS * 3), 50, color=True), io.StringIO()
    Console(width=50, force_terminal=True, color_system="256", file=out).print(text)
    assert out.getvalue().count("\n") == text.plain.count("\n") + 1


@pytest.mark.parametrize(
    ("token", "shown"),
    [("", "∅"), ("  ", "␣␣"), ("\u200b", "⟨200B⟩"), ("\ud83d", "⟨D83D⟩"), ("\u202ea", "⟨202E⟩a"), ("##s", "##s")],
)
def test_invisible_characters_are_written_out(token, shown):
    assert legible(token) == shown


def test_the_finding_can_be_checked():
    ds = sentence(TOKENS)
    own = np.diagonal(ds["contribution"].values[-1]).mean()
    assert finding(ds) == f"After layer 3, a token is still {100 * own:.0f} % itself on average"
    by_layer = ds["mixing"].values[1].mean(axis=1)
    assert finding(ds.drop_vars("contribution")).startswith(f"Layer {by_layer.argmax() + 1} mixes most: ")


def test_rolled_out_maps_are_named_after_their_map():
    assert style("rollout_attn_w").title == "weights: attention, rolled out"
    assert style("rollout_attn_w").color == style("attn_w").color


def test_scales_start_at_paper_and_end_deep():
    assert amount(0.0, "light") == "#ffffff" == signed(0.0, "light")
    assert amount(0.0, "dark") == "#13161c" == signed(0.0, "dark")
    assert ink_on(amount(1.0, "light")) == "#ffffff"
    assert ink_on(amount(1.0, "dark")) == "#000000"


@pytest.mark.parametrize(("misplaced", "said"), [(0.019, "about 2 %"), (0.001, "less than 1 %"), (0.0, None)])
def test_an_estimate_says_how_good_it_is(misplaced, said):
    found = sentence(TOKENS)
    found["contribution"].attrs["misplaced"] = misplaced
    shown = str(picture(found, 120, color=False))
    assert "estimated" not in shown if said is None else f"(estimated, {said} are at the wrong source):" in shown


def test_every_map_says_what_it_is():
    maps = [name for row in MEASURES.values() for name, variable in row.variables.items() if "source" in variable.dims]
    unsaid = [name for name in maps if not name.endswith("_se") and name.removeprefix("rollout_") not in STYLES]
    assert len(maps) > 20 and not unsaid


@pytest.mark.parametrize(
    ("family", "says"), [("bert", "is predicted at “[MASK]”"), ("gpt2", "is predicted after “ada”")]
)
def test_a_decoder_predicts_what_comes_after(family, says):
    model = tiny.model(family)
    text = "bo [MASK]" if family == "bert" else "bo ada"
    assert says in predictions(whence.lm_head(model, text))[0].finding
