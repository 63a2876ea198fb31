"""A study's report: one HTML file that opens offline, light and dark, and prints."""

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import pandas

from whence.plot.palette import FURNITURE
from whence.studies.frame.study import Answered, Beside, Claim, Item, Left, Shown, Study

_VERDICTS = {
    True: ("yes", "confirmed on this model"),
    False: ("no", "not confirmed on this model"),
    None: ("open", "not decided"),
}
_ROWS = 40  # of a table on the page; all of them are in the file
# name -> theme -> the picture itself as an item of a srcset
Pictures = Mapping[str, Mapping[str, str]]


def page(study: Study, about: Mapping[str, Any], answers: Sequence[Answered], pictures: Pictures) -> str:
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'"
    body = "\n".join(_section(answer, pictures) for answer in answers)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_safe(study.title)} · whence</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"{_head(study, about, answers)}\n{body}\n{_foot(study, about)}\n</main>\n</body>\n</html>\n"
    )


def _head(study: Study, about: Mapping[str, Any], answers: Sequence[Answered]) -> str:
    claims = [item for answer in answers for item in answer.items if isinstance(item, Claim)]
    counts = {verdict: sum(claim.confirmed is verdict for claim in claims) for verdict in _VERDICTS}
    verdict = f"{counts[True]} of {len(claims)} findings of the paper are confirmed on this model"
    if counts[None]:
        verdict += f", {counts[None]} could not be decided"
    rows = "".join(f"<li>{_claim(claim)}</li>" for claim in claims)
    short = f'<h2>In short</h2><p>{verdict}.</p><ul class="claims">{rows}</ul>' if claims else ""
    sample = f" · {'a quick sample' if about['quick'] else 'the full sample'}" if "quick" in about else ""
    return (
        f'<p class="eyebrow">whence · {_safe(study.name)}</p><h1>{_safe(study.title)}</h1>'
        f'<p class="lead">{_safe(study.asks)}</p>'
        f'<p class="muted">{_safe(about["model"])} · {_safe(about["data"])}{sample}</p>{short}'
    )


def _section(answer: Answered, pictures: Pictures) -> str:
    items = "".join(_ITEMS[type(item)](item, pictures) for item in answer.items if not isinstance(item, Claim))
    return f"<section><h2>{_safe(answer.section.title)}</h2><p>{_safe(answer.section.asks)}</p>{items}</section>"


def _shown(item: Shown, pictures: Pictures) -> str:
    sources, drawing = pictures[item.name], item.drawing
    alternative = _safe(f"{drawing.title}. {drawing.subtitle}")
    picture = (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{sources["dark"]}">'
        f'<img srcset="{sources["light"]}" alt="{alternative}"></picture>'
    )
    note = f" {_safe(item.note)}" if item.note else ""
    files = {
        "CSV": f"tables/{item.name}.csv",
        "SVG": f"charts/{item.name}.svg",
        "interactive": f"charts/{item.name}.html",
    }
    links = " · ".join(f'<a href="{file}">{name}</a>' for name, file in files.items())
    beside = f"Beside {_safe(item.answers)}." if item.answers else ""
    caption = f'<figcaption>{beside}{note} <span class="files">{links}</span></figcaption>'
    return f'<figure id="{item.name}">{picture}{caption}{_details(item.written)}</figure>'


def _details(table: pandas.DataFrame) -> str:
    more = f"the first {_ROWS} of {len(table):,} rows" if len(table) > _ROWS else f"{len(table)} rows"
    return f"<details><summary>The numbers ({more})</summary>{_table(table.head(_ROWS))}</details>"


def _claim(item: Claim) -> str:
    kind, words = _VERDICTS[item.confirmed]
    statistic = f'<span class="muted">{_safe(item.statistic)}</span>'
    return f'<span class="verdict {kind}">{words}</span> {_safe(item.says)} {statistic}'


def _beside(item: Beside, pictures: Pictures) -> str:
    link = f'<span class="files"><a href="tables/{item.name}.csv">CSV</a></span>'
    caption = f"<figcaption>Ours and {_safe(item.answers)}. {_safe(item.differs)} {link}</figcaption>"
    return f'<figure id="{item.name}">{caption}{_table(item.table)}</figure>'


def _left(item: Left, pictures: Pictures) -> str:
    return f'<p class="left">Not here: {_safe(item.what)}, because {_safe(item.why)}.</p>'


_ITEMS: dict[type[Item], Any] = {
    Shown: _shown,
    Beside: _beside,
    Left: _left,
}


def _table(table: pandas.DataFrame) -> str:
    head = "".join(f"<th>{_safe(name)}</th>" for name in table.columns)
    rows = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.itertuples(index=False))
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td class="number">{"" if value != value else f"{value:.3g}"}</td>'
    return f'<td class="number">{value:,}</td>' if isinstance(value, int) else f"<td>{_safe(value)}</td>"


def _foot(study: Study, about: Mapping[str, Any]) -> str:
    facts = "".join(
        f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in about.items() if value != ""
    )
    paper = f"<p>The paper: {_safe(study.paper)}</p>" if study.paper else ""
    return f'<footer><h2>Conditions</h2>{paper}<div class="wide"><table>{facts}</table></div></footer>'


def _style() -> str:
    def variables(theme: str) -> str:
        return "".join(f"--{name}:{color};" for name, color in FURNITURE[theme].items())  # type: ignore[index]

    sheet = files("whence.studies.frame").joinpath("page.css").read_text(encoding="utf-8")
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{variables('dark')}}}}}"
    return f":root{{{variables('light')}}}{dark}{sheet}"


def _safe(value: object) -> str:
    return html.escape(str(value), quote=True)
