"""A study's answers as files: tables as CSV and Parquet, charts as SVG and HTML, and a report to read."""

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whence.plot.drawing import draw
from whence.plot.palette import THEMES
from whence.studies.frame.answers import write_table
from whence.studies.frame.page import page
from whence.studies.frame.study import Answered, Beside, Finding, Left, Shown, Study

LARGE = 200_000  # characters; the report shows a larger SVG as a PNG
SHARP = 2  # pixels of the PNG for each pixel of the page


def write(
    study: Study,
    about: dict[str, Any],
    out: Path,
    answers: Sequence[Answered],
    interactive: bool = True,
    models: Sequence[tuple[str, str]] = (),
) -> Path:
    """Writes the report and the files beside it, and returns its path. `about` names the model and the data.

    `models` are the names and the folders of reports about single models, `interactive` charts large HTML pages.
    """
    for folder in ("tables", "charts"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    pictures = {}
    for item in (item for answer in answers for item in answer.items):
        if isinstance(item, Shown):
            write_table(out / "tables" / item.name, item.written)
            pictures[item.name] = _charts(out / "charts" / item.name, item, interactive)
        elif isinstance(item, Beside):
            write_table(out / "tables" / item.name, item.table)
    (out / "findings.json").write_text(json.dumps(_findings(about, answers), indent=1), encoding="utf-8")
    report = out / "report.html"
    report.write_text(page(study, about, answers, pictures, models, interactive), encoding="utf-8")
    return report


def _charts(stem: Path, shown: Shown, interactive: bool) -> dict[str, str]:
    """Writes the light chart as SVG and as an interactive page, and returns each theme's picture for the report."""
    import altair
    import vl_convert

    with altair.data_transformers.disable_max_rows():
        specs = {theme: json.dumps(draw(shown.drawing, theme).to_dict()) for theme in THEMES}
    drawn = {theme: vl_convert.vegalite_to_svg(spec) for theme, spec in specs.items()}
    stem.with_suffix(".svg").write_text(drawn["light"], encoding="utf-8")
    if interactive:
        stem.with_suffix(".html").write_text(vl_convert.vegalite_to_html(specs["light"], bundle=True), encoding="utf-8")
    if len(drawn["light"]) > LARGE:
        pixels = {theme: vl_convert.vegalite_to_png(spec, scale=SHARP) for theme, spec in specs.items()}
        return {theme: _inline("png", png, SHARP) for theme, png in pixels.items()}
    return {theme: _inline("svg+xml", svg.encode(), 1) for theme, svg in drawn.items()}


def _inline(kind: str, data: bytes, density: int) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()} {density}x"


def _findings(about: dict[str, Any], answers: Sequence[Answered]) -> dict[str, Any]:
    """The verdicts, for programs to read."""
    items = [item for answer in answers for item in answer.items]
    return {
        "about": about,
        "claims": [_finding(item) for item in items if isinstance(item, Finding)],
        "left_out": [vars(item) for item in items if isinstance(item, Left)],
        "pictures": [{"name": item.name, "answers": item.answers} for item in items if isinstance(item, Shown)],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    """JSON has no NaN."""
    parts = {name: {key: _known(value) for key, value in vars(part).items()} for name, part in finding.parts.items()}
    return vars(finding) | {"parts": parts}


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
