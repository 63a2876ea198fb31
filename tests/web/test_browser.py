"""The explorer as a person meets it: types, clicks, walks with the keys, saves, comes back."""

import csv
import io
import itertools
import json
import re
import threading
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from benchmarks.explorer import VIEWS

import whence
from tests import tiny
from tests.web.conftest import TINY, link, painted, settled, wait_until, written

CAT = "The cat sat on the mat."
MASKED = "The cat sat on the [MASK]."


def show(page, view):
    page.click(f"#tab-{view}")
    page.wait_for_selector(f"#{view}:not([hidden]) h2")


def state_of(page):
    written(page)
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).fragment).items()}


def heading(page):
    return page.inner_text(".panel:not([hidden]) h2")


def test_a_sentence_is_typed_and_every_view_opened(open_page, server):
    page = settled(open_page(link(server, model=TINY)))
    page.fill("#text", CAT)
    page.press("#text", "Enter")
    page.wait_for_selector(".token:text-is('cat')")
    settled(page)
    assert page.locator(".token").all_inner_texts() == ["[CLS]", "the", "cat", "sat", "on", "the", "mat", ".", "[SEP]"]
    assert page.locator("[role=tab]").count() == len(VIEWS)
    for view in VIEWS:
        page.click(f"#tab-{view}")
        page.wait_for_selector(f"#{view}:not([hidden]) h2")
        assert heading(page), view
        assert page.locator(".panel:not([hidden])").count() == 1
        assert state_of(page)["view"] == view
    assert state_of(page)["text"] == CAT


def test_a_link_restores_everything(open_page, server):
    asked = {
        "text": CAT,
        "model": TINY,
        "view": "whence",
        "layer": 2,
        "token": 3,
        "source": 4,
        "map": "attn_n",
        "theme": "dark",
    }
    page = settled(open_page(link(server, **asked)))
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.locator(".token[aria-pressed=true]").inner_text() == "sat"
    assert page.locator("#tab-whence").get_attribute("aria-selected") == "true"
    assert heading(page).startswith("In layer 2, “\u2068sat\u2069” takes")
    page.click(".token >> nth=5")
    found = state_of(page)
    assert found == {name: str(value) for name, value in asked.items()} | {"token": "5", "source": "5", "head": "mean"}
    again = settled(open_page(page.url))
    assert heading(again) == heading(page)


def test_what_was_just_chosen_is_not_lost(visit, server):
    """An address is written a moment after a choice; going elsewhere, or numbers that arrive, may come in between."""
    page = visit("left", model=TINY, text=CAT)
    page.evaluate(
        "(to) => { document.querySelector('#tab-maps').click(); location.hash = to; }",
        f"text={quote(CAT)}&view=heads&model=tiny",
    )
    page.wait_for_selector("#heads:not([hidden]) h2")
    assert state_of(page)["view"] == "heads"
    page.evaluate(
        "(to) => { location.hash = to; document.querySelector('#tab-flow').click(); }",
        f"text={quote(CAT)}&token=3&model=tiny",
    )
    page.wait_for_selector("#flow:not([hidden]) h2")
    assert state_of(page)["view"] == "flow" and state_of(page)["token"] == "3"


def test_back_brings_the_last_sentence(open_page, server):
    page = settled(open_page(link(server, model=TINY, text=CAT)))
    page.fill("#text", "Dogs run.")
    page.press("#text", "Enter")
    page.wait_for_selector(".token:text-is('dogs')")
    page.go_back()
    page.wait_for_selector(".token:text-is('cat')")
    assert page.input_value("#text") == CAT


def test_a_click_on_a_cell_selects_it(visit):
    page = visit("left", model=TINY, text=CAT)
    box = page.locator("#left .grid").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    assert page.locator(".tip").inner_text()
    page.mouse.click(box["x"] + box["width"] * 0.4, box["y"] + 40)
    assert state_of(page)["layer"] == "3"
    chosen = page.locator(".token[aria-pressed=true]").inner_text()
    assert f"“\u2068{chosen}\u2069”" in heading(page)


def test_heads_open_in_maps(visit):
    page = visit("heads", model=TINY, text=CAT)
    box = page.locator("#heads canvas").bounding_box()
    page.mouse.click(box["x"] + 34 + 10, box["y"] + 18 + 10)
    page.wait_for_selector("#maps:not([hidden]) h2")
    found = state_of(page)
    assert (found["view"], found["layer"], found["head"]) == ("maps", "3", "0")
    assert heading(page).startswith("In head 0 of layer 3")


def test_the_difference_of_two_maps(visit):
    page = visit("maps", model=TINY, text=CAT, maps="attnres_n", minus="attn_w", layer=1)
    assert page.locator("#maps h3:visible").all_inner_texts() == [
        "norms: attention + residual",
        "weights: attention",
        "difference",
    ]
    header, rows = table_of(page, "maps")
    by = {name: [float(row[-1]) for row in rows if row[0] == name] for name in ("attnres_n", "attn_w", "difference")}
    assert header[0] == "map" and len(by["difference"]) == 81
    assert by["difference"] == pytest.approx(
        [a - b for a, b in zip(by["attnres_n"], by["attn_w"], strict=True)], abs=1e-5
    )
    for name in ("attnres_n", "attn_w"):
        assert sum(by[name][:9]) == pytest.approx(1, abs=1e-4)


def test_the_flow_is_drawn_by_the_decomposition(visit, models):
    page = visit("flow", model=TINY, text=CAT, token=3, layer=2)
    expected = whence.measure(models[TINY], CAT, "decomposition").decomposition_share.sel(layer=2, target=3).values
    _, rows = table_of(page, "flow")
    assert {(row[0], row[1], row[4], row[5]) for row in rows} == {("decomposition_share", "0", "2", "3")}
    found = {int(row[2]): float(row[8]) for row in rows}
    assert [found.get(source, 0) for source in range(9)] == pytest.approx(expected.tolist(), abs=0.002)
    assert "nothing is multiplied" in page.inner_text("#flow .subtitle")
    page.select_option("#flow select >> nth=0", "attn_n")
    page.wait_for_selector("#flow .subtitle:has-text('vectors that cancel still add up')")


def test_the_flow_waits_for_the_decomposition_and_no_longer_when_that_is_given_up(open_page, server):
    held, release = threading.Event(), threading.Event()
    measured = server.service._dataset

    def slow(model, parsed, measures, **options):
        if "decomposition" in measures:
            held.set()
            while not release.wait(0.01):
                options["progress"](0, 1)
        return measured(model, parsed, measures, **options)

    server.service._dataset = slow
    try:
        page = open_page(link(server, text="A cat waits here.", model=TINY, view="flow"))
        page.wait_for_selector("#flow h2:has-text('Measuring decomposition')")
        assert not page.is_visible("#flow canvas") and not page.is_visible("#flow .leave")
        wait_until(held.is_set)
        page.click("text=Cancel")
        page.wait_for_selector("#flow h2:has-text('goes back to')")
        assert "Links by norms" in page.inner_text("#flow .subtitle")
        assert "read it with care" in page.inner_text("#flow .subtitle")
    finally:
        release.set()
        server.service._dataset = measured


def test_the_flow_shows_the_share_that_is_asked_for(visit, models):
    page = visit("flow", model=TINY, text=CAT, flow="attn_w", keep=1)
    _, rows = table_of(page, "flow")
    maps = whence.measure(models[TINY], CAT, ["attn_w"]).norms.sel(analysis="attn_w").values
    chosen = int(next(row[5] for row in rows if row[4] == "3"))
    expected = (maps[2] @ maps[1] @ maps[0])[chosen]  # what rollout multiplies
    found = [sum(float(row[8]) for row in rows if row[1] == "0" and row[2] == str(source)) for source in range(9)]
    assert found == pytest.approx(expected.tolist(), abs=0.02)  # links below 0.2 % are left out
    assert {row[5] for row in rows if row[4] == "3"} == {str(chosen)}
    slider = page.locator("#flow input[type=range]")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    _, fewer = table_of(page, "flow")
    keep, carried = float(state_of(page)["keep"]), sum(float(row[8]) for row in fewer)
    assert keep == pytest.approx(0.7, abs=0.02) and 0 < len(fewer) < len(rows)
    assert (
        carried / 3 >= keep - 0.01 and (carried - float(fewer[-1][8])) / 3 < keep
    )  # of three layers; no link too many


def test_a_long_flow_names_what_matters_and_bundles_the_rest(visit, models):
    """Two hundred tokens in one picture whose words can be read: nothing is lost, and every name has its room."""
    text = " ".join([CAT, "A dog ran."] * 18)
    page = visit("flow", model=TINY, text=text, flow="attn_n", token=40)
    page.select_option("#flow select >> nth=0", "attn_n")
    expected = whence.measure(models[TINY], text, ["norms"]).norms.sel(analysis="attn_n")
    drawing = picture_of(page, "flow", "SVG").decode()
    assert len(re.findall(r"\d+ more</text>", drawing)) > 3
    names = re.findall(r"translate\(([\d.]+) [\d.]+\) rotate\(-90\)\"[^>]*>(?!\d+\.?\d*\u00a0%)", drawing)
    places = sorted(map(float, names))
    assert len(places) > 12 and min(b - a for a, b in itertools.pairwise(places)) >= 14
    assert expected.sizes["target"] > 160


def test_the_head_step_by_step_and_layer_by_layer(visit, models):
    page = visit("prediction", model=TINY, text=MASKED)
    expected = whence.lm_head(models[TINY], MASKED, layer="all").isel(position=0)
    _, rows = table_of(page, "prediction")
    stages = list(expected["stage"].values)
    assert [row[2] for row in rows[::10]] == [*stages, "embedding", *(f"after layer {layer}" for layer in (1, 2, 3))]
    assert [row[5] for row in rows[70:80]] == expected["top"].isel(layer=-1, stage=-1).values.tolist()
    assert [row[5] for row in rows[90:100]] == expected["top"].isel(layer=1, stage=-1).values.tolist()
    assert page.locator("#prediction h3:visible").count() == 2
    page.click(".token >> nth=2")
    page.click("text=Predict at “cat”")
    page.wait_for_selector("#prediction option[value='2']", state="attached")
    settled(page)
    assert " is predicted at “cat" in heading(page) and state_of(page)["asked"] == "2"


def test_the_sentence_is_perturbed(visit):
    page = visit("perturb", model=TINY, text=CAT, token=2)
    page.click("button:has-text('Mask “cat”')")
    page.wait_for_selector("#perturb h3:has-text('difference')")
    settled(page)
    assert "“\u2068cat\u2069” is now “\u2068[MASK]\u2069”" in page.inner_text("#perturb .subtitle")
    assert state_of(page)["edited"] == "The [MASK] sat on the mat."
    _, rows = table_of(page, "perturb")
    assert [row[3] for row in rows[:4]] == ["[CLS]", "the", "[MASK]", "sat"]
    assert any(abs(float(row[6])) > 1e-6 for row in rows)
    for row in rows:
        assert float(row[5]) - float(row[4]) == pytest.approx(float(row[6]), abs=1e-5)
    page.select_option("#perturb select", "contribution")
    page.wait_for_selector("#perturb .subtitle:not(:has-text('estimates'))")  # exact: the model is tiny
    page.fill("#perturb textarea", "A cat sat here on the mat.")
    page.click("text=Measure the change")
    page.wait_for_selector("#perturb .subtitle:has-text('1 added')")


def test_a_change_that_is_estimated_says_so(visit):
    page = visit("perturb", model="whence/builtin", text=CAT, token=2, field="contribution")
    page.click("button:has-text('Mask “cat”')")
    page.wait_for_selector("#perturb .subtitle:has-text('~: estimates, with standard errors of')")
    page.select_option("#perturb select", "mixing attn_w")
    page.wait_for_selector("#perturb .subtitle:not(:has-text('estimates'))")


def test_two_models_are_compared(visit):
    page = visit("compare", model=TINY, text=CAT, field="mixing attn_w")
    assert page.locator("#compare h3").count() == 3
    page.select_option("#compare select >> nth=0", "whence/builtin")
    page.wait_for_selector("#compare h3:has-text('whence/builtin')")
    settled(page)
    assert "3 against 6" in page.inner_text("#compare .subtitle")
    assert state_of(page)["other"] == "whence/builtin"
    page = visit("compare", model=TINY, text=CAT)  # an address that names no other model means none
    assert "other" not in state_of(page) and "being measured" not in page.inner_text("#compare")


def test_a_pair_and_more_measures(open_page, server):
    page = settled(open_page(link(server, model=TINY, text=CAT)))
    page.click("text=Options")
    page.click("text=Second sentence")
    page.fill("#pair", "It slept.")
    page.press("#pair", "Enter")
    page.wait_for_selector(".token:text-is('slept')")
    settled(page)
    assert page.locator(".token.special").all_inner_texts() == ["[CLS]", "[SEP]", "[SEP]"]
    page.check("input[value=value_zeroing]")
    page.click("#tab-whence")
    page.wait_for_selector("#whence option[value=value_zeroing]", state="attached")
    assert state_of(page)["measures"] == "value_zeroing"


def test_only_the_keyboard(open_page, server):
    page = settled(open_page(link(server, model=TINY, text=CAT)))
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        active = page.evaluate_handle("document.activeElement").as_element()
        if active is None or active.evaluate("e => e === document.body"):
            break
        name = active.evaluate("e => e.id || e.getAttribute('role') || e.className || e.tagName")
        reached.add(name)
        visible = active.evaluate("e => e.matches(':focus-visible')")
        assert visible, name
    assert {"text", "go", "tab-left", "application"} <= reached
    page.focus("#tab-left")
    for view in VIEWS[1:]:
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"#{view}:not([hidden])")
        assert page.evaluate("() => document.activeElement.id") == f"tab-{view}"
    show(page, "left")
    page.focus("#left .grid")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    found = state_of(page)
    assert found["layer"] == "2"
    show(page, "flow")
    page.focus("#flow .grid")
    page.keyboard.press("ArrowUp")
    assert state_of(page)["layer"] == "3"
    show(page, "heads")
    page.focus("#heads .grid")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert state_of(page)["view"] == "maps" and state_of(page)["head"] == "1"


def test_everything_that_can_be_used_has_a_name(visit):
    page = visit("left", model=TINY, text=CAT)
    for view in VIEWS:
        page.click(f"#tab-{view}")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, select, input, textarea, progress, .grid, [role=tabpanel]')]
              .filter((e) => e.checkVisibility())
              .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length))
              .filter((e) => !e.getAttribute('aria-labelledby'))
              .map((e) => e.outerHTML.slice(0, 80))"""
        )
        assert nameless == [], view
    assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"


def test_light_and_dark(visit):
    page = visit("left", model=TINY, text=CAT)
    lightness = {}
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f"html[data-theme={scheme}]")
        paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        lightness[scheme] = sum(map(int, re.findall(r"\d+", paper)))
    assert lightness["dark"] < 120 and lightness["light"] > 700
    page.click(".theme")
    page.wait_for_selector("html[data-theme=dark]")
    assert state_of(page)["theme"] == "dark"


def test_phone_width(visit):
    page = visit("left", model=TINY, text=CAT)
    try:
        page.set_viewport_size({"width": 360, "height": 740})
        for view in VIEWS:
            show(page, view)
            painted(page)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 360, view
            parts = [
                page.locator(name).first.bounding_box() for name in (".ask", ".header", ".bar", f"#{view}", ".notes")
            ]
            for above, below in itertools.pairwise(parts):
                assert above["y"] + above["height"] <= below["y"] + 1, view
    finally:
        page.set_viewport_size({"width": 1280, "height": 900})


HOSTILE = "</script><script>alert(1)</script> <img src=x onerror=alert(2)> שלום \u202eevil\u202c"
HOSTILE += " zero\u200bwidth 'a\"b` ${x} & &lt;"


def test_hostile_text_stays_text(open_page, server, tmp_path):
    page = open_page(link(server, model=TINY, text=CAT))
    settled(page)
    page.fill("#text", HOSTILE)
    page.press("#text", "Enter")
    page.wait_for_selector(".token:text-is('script')")
    settled(page)
    for view in VIEWS:
        page.click(f"#tab-{view}")
    assert page.locator("main script, main img, main iframe").count() == 0
    assert state_of(page)["text"] == HOSTILE
    saved = save(page, "HTML", tmp_path)
    copy = open_page(saved.as_uri())
    copy.wait_for_selector(".panel:not([hidden]) h2")
    assert copy.locator("main script, main img, main iframe").count() == 0
    assert copy.locator(".token").all_inner_texts() == page.locator(".token").all_inner_texts()


def test_refusals_are_shown_and_the_picture_stays(open_page, server):
    page = settled(open_page(link(server, model=TINY, text=CAT), expect_errors=True))  # the browser logs the 422
    page.fill("#text", "word " * 600)
    page.press("#text", "Enter")
    page.wait_for_selector(".alarm:has-text('at most 512')")
    assert page.locator(".token:text-is('cat')").count() == 1
    page.fill("#text", "   ")
    page.press("#text", "Enter")
    page.wait_for_selector(".alarm:has-text('empty')")
    page.fill("#text", CAT)
    page.press("#text", "Enter")
    page.wait_for_selector(".alarm:not(:has-text('empty'))", state="attached")
    assert settled(page).locator(".token:text-is('cat')").count() == 1


def test_a_long_job_is_cancelled(open_page, server):
    page = settled(open_page(link(server, text=" ".join([CAT] * 14)), expect_errors=True))
    assert re.search(r"more than 40 tokens: 100 take about \d+ (s|min)", page.inner_text(".offer"))
    assert page.is_visible(".hero .token[aria-pressed=true]")  # the text is folded around what matters
    page.click(".offer button")
    page.wait_for_selector(".work:has-text('contribution')")
    assert page.locator(".offer").is_hidden()
    page.wait_for_function("() => /\\d\\s%/.test(document.querySelector('.said').textContent)")
    for view in ("flow", "left"):  # the rest is there meanwhile
        show(page, view)
        assert page.locator(f"#{view} .grid >> visible=true").count() >= 1
    page.click("text=Cancel")
    page.wait_for_selector(".work:has-text('Cancelled')")
    page.wait_for_selector(".offer button")  # and can be asked for again
    wait_until(lambda: not server.service.jobs._queue)
    assert page.locator("#left .grid").count() >= 1  # what was there stays


# Leaving


def save(page, how, folder):
    with page.expect_download() as waiting:
        page.click(f".ways button:has-text('{how}')")
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def table_of(page, view, also=""):
    """The CSV of a view, or the one of what is drawn beside."""
    with page.expect_download() as waiting:
        page.click(f"#{view} .leave button:text-is('CSV{also and f', {also}'}')")
    rows = list(csv.reader(io.StringIO(waiting.value.path().read_text(encoding="utf-8"))))
    return rows[0], rows[1:]


def test_what_is_drawn_beside_leaves_too(visit, models):
    page = visit("left", model=TINY, text=MASKED, show="mixing attn_n")
    _, cells = table_of(page, "left")
    header, means = table_of(page, "left", also="means")
    assert header == ["show", "layer", "mean"]
    found = {(show, int(layer)): float(mean) for show, layer, mean in means}
    for layer in (1, 2, 3):
        own = [float(row[4]) for row in cells if row[1] == str(layer)]
        assert found["mixing attn_n", layer] == pytest.approx(sum(own) / len(own), rel=1e-4)
    measured = whence.measure(models[TINY], MASKED, ["mixing"])["mixing"]
    for analysis, own in measured.groupby("analysis"):
        expected = own.squeeze("analysis").mean("target").values.tolist()
        assert [found[f"mixing {analysis}", layer] for layer in (1, 2, 3)] == pytest.approx(expected, rel=1e-4)
    show(page, "prediction")
    header, rows = table_of(page, "prediction", also="agreement")
    expected = whence.lm_head(models[TINY], MASKED, layer="all").isel(position=0)
    stages = expected["stage"].values.tolist()
    assert header == ["position", "stage", "other_stage", "spearman"]
    assert [row[1:3] for row in rows] == [[one, other] for one in stages for other in stages]
    agreement = expected["spearman"].isel(layer=-1).transpose("stage", "other_stage")
    assert [float(row[3]) for row in rows] == pytest.approx(agreement.values.ravel().tolist(), abs=1e-4)
    page.click("#prediction button:text-is('Table')")
    assert page.locator("#prediction .numbers table").count() == 2
    show(page, "maps")
    assert page.locator("#maps .leave button:visible").all_inner_texts() == ["SVG", "PNG", "CSV", "Table"]


@pytest.mark.slow
def test_the_saved_page_opens_from_disk_and_behaves_the_same(open_page, server, tmp_path):
    asked = {
        "text": MASKED,
        "model": TINY,
        "edited": "The dog sat on the [MASK].",
        "other": "whence/builtin",
        "view": "maps",
        "layer": 2,
        "token": 3,
    }
    live = settled(open_page(link(server, **asked)))
    live.click("#tab-compare")
    live.wait_for_selector("#compare h3:has-text('whence/builtin')")
    settled(live)
    live.click("#tab-maps")
    copy = open_page(save(live, "HTML", tmp_path).as_uri())
    copy.wait_for_selector("#maps:not([hidden]) h2")  # it opens where it was left
    assert copy.locator("#text").count() == 0
    for view in VIEWS:
        for page in (live, copy):
            show(page, view)
        assert heading(copy) == heading(live), view
        if view in ("flow", "prediction", "perturb", "compare"):
            assert table_of(copy, view) == table_of(live, view), view
    for page in (live, copy):
        show(page, "whence")
        page.focus("#whence .grid")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("#whence h2:has-text('layer 3')")
    assert heading(copy) == heading(live)
    assert state_of(copy)["token"] == "3" and state_of(copy)["view"] == "whence"


def test_a_long_page_draws_what_is_not_written_in_it(open_page, models, tmp_path):
    """Effective attention is inside as factors, null attention not at all."""
    dataset = whence.measure(models[TINY], " ".join([CAT] * 12), ["attention", "effective", "null"])
    path = whence.report(dataset, tmp_path / "page.html")
    assert '"kind":"product"' in path.read_text() and '"kind":"difference"' in path.read_text()
    page = open_page(f"{path.as_uri()}#view=maps&layer=2&head=1")
    page.wait_for_selector("#maps:not([hidden]) h2")
    _, rows = table_of(page, "maps")
    for name in ("attention", "effective", "null"):
        expected = dataset[name].sel(layer=2, head=1).values.ravel()
        found = [float(row[-1]) for row in rows if row[0] == name]
        assert found == pytest.approx(expected.tolist(), abs=float(1e-3 * abs(expected).max())), name
    show(page, "heads")
    page.select_option("#heads select >> nth=0", "null")
    assert heading(page)


def picture_of(page, view, kind):
    """A view as it leaves the page, as bytes."""
    with page.expect_download() as waiting:
        page.click(f"#{view} .leave button:has-text('{kind}')")
    return waiting.value.path().read_bytes()


def test_svg_and_png(visit):
    page = visit("left", model=TINY, text=CAT)
    for view in ("left", "flow", "maps"):
        page.click(f"#tab-{view}")
        text = picture_of(page, view, "SVG").decode()
        assert text.startswith("<svg") and "cat" in text and "<script" not in text
        assert "<path" in text if view == "flow" else "<rect" in text
    assert picture_of(page, "maps", "PNG").startswith(b"\x89PNG")


def test_every_picture_leaves_with_its_heading(visit):
    page = visit("prediction", model=TINY, text=MASKED)
    text = picture_of(page, "prediction", "SVG").decode()
    headings = page.locator("#prediction h3:visible").all_inner_texts()
    assert len(headings) == 2
    assert all(f">{heading}</text>" in text for heading in headings)


def test_all_heads_as_svg_and_png(visit):
    page = visit("heads", model=TINY, text=CAT)
    text = picture_of(page, "heads", "SVG").decode()
    assert heading(page) in text and ">layer</text>" in text
    assert text.count('width="1" height="1"') == 3 * 4 * 9**2  # every cell of every head
    assert picture_of(page, "heads", "PNG").startswith(b"\x89PNG")
    long = visit("heads", model=TINY, text=" ".join([CAT] * 11))
    text = picture_of(long, "heads", "SVG").decode()
    assert text.count("<image") == 3 * 4 and 'href="data:image/png' in text  # of very many, an image for each head
    assert picture_of(long, "heads", "PNG").startswith(b"\x89PNG")


def test_netcdf_leaves_too(visit, tmp_path):
    import xarray

    page = visit("left", model=TINY, text=CAT)
    with xarray.open_dataset(save(page, "netCDF", tmp_path), engine="netcdf4") as found:
        assert {"attention", "mixing", "norms", "contribution"} <= set(found.data_vars)
        assert json.loads(found.attrs["parameters"])["contribution"]["error"] == 0.05


def test_a_page_of_a_hybrid(open_page, tmp_path):
    """Layers that do not attend are said, left out of the overview, and skipped by the keys."""
    model = tiny.model("jamba", num_hidden_layers=4)
    dataset = whence.measure(model, "ada bo cy dee .", ["attention", "effective", "contribution"])
    path = whence.report(dataset, tmp_path / "page.html").as_uri()
    page = open_page(f"{path}#view=maps&layer=3")
    page.wait_for_selector("#maps:not([hidden]) h2")
    assert page.inner_text("#maps h2") == "Layer 3 does not attend; layers 2 and 4 do"
    show(page, "heads")
    assert "of 8 heads" in page.inner_text("#heads h2")
    page.focus(".tiles")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".tiles[aria-label*='at layer 2, head 0']")
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(".tiles[aria-label*='at layer 4, head 0']")
    show(page, "flow")
    assert page.locator("#flow select >> nth=0").evaluate("(by) => [...by.options].map((one) => one.value)") == [
        "contribution"
    ]
