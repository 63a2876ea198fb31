"""A run as a data set for others: a card that says what its tables hold, and the folder on the Hub if it is wanted."""

import json
import re
from pathlib import Path

import pyarrow
from jinja2 import Environment, StrictUndefined

from whence.citations import cite
from whence.corpus.open_run import Run, open_run
from whence.corpus.plan import WHY
from whence.corpus.run_tables import as_parquet
from whence.corpus.store import JOURNAL, LOCK, UNFINISHED
from whence.errors import BadInput
from whence.measures.registry import measures
from whence.models.hub import upload

CARD = "README.md"
APART = (JOURNAL, LOCK, f"*{UNFINISHED}*")  # the journal has commands, and with them places on this machine
REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
PLAIN = "published/sentences.parquet"  # datasets reads no maps (as of 5.2), so that labels become JSON
PREDICTIONS = {
    "share": ("signed part of the prediction's logit that a source gave", "logits"),
    "dependence": ("length of the derivative of the log-probability by a source's state", ""),
}
# table -> its files, and what a row is
TABLES = {
    "tokens": ("tokens/*.parquet", "a token and layer"),
    "pairs": ("pairs/*.parquet", "a pair of words and a layer"),
    "sentences": (PLAIN, "a sentence; `labels` is what is known of it, as JSON"),
    "heads": ("heads/*.parquet", "a sentence, layer and head"),
    "moments": ("moments.parquet", "a variable, layer, head and group"),
    "maps": ("maps/*.parquet", "a sentence, variable, layer and head"),
}
FORM = """\
---
pretty_name: {{ title | tojson }}
{% if license -%}
license: {{ license | tojson }}
{% endif -%}
tags: [interpretability, whence]
configs:
{% for name, files in configs.items() -%}
- config_name: {{ name }}
  data_files: {{ files | tojson }}
{% endfor -%}
---

# {{ title }}

Numbers of the hidden tokens of **{{ model.id }}**{% if model.revision %} (revision `{{ model.revision }}`){% endif %}
over the corpus **{{ corpus.name }}**: {{ "{:,}".format(corpus.sentences) }} sentences,
{{ "{:,}".format(corpus.tokens) }} tokens. They were measured with [whence](https://pypi.org/project/whence/)
{{ versions.whence }}, which checks every model against its own output first. The texts are those of the corpus, and its
terms hold for them.

## What was measured

| measure | variable | what it says | unit |
|---|---|---|---|
{% for measure, variable, about, unit in rows -%}
| `{{ measure }}` | `{{ variable }}` | {{ about }} | {{ unit }} |
{% endfor %}
Options: {{ options }}. Layers count from 1, heads from 0.

## The tables

| table | a row for each |
|---|---|
{% for name in configs -%}
| `{{ name }}` | {{ tables[name][1] }} |
{% endfor %}
```python
import datasets
import whence

tokens = datasets.load_dataset("path/to/this/folder", "tokens", split="train")
tokens = whence.open_run("path/to/this/folder").tokens  # the same as a data frame, after every checksum was compared
```

## Where the numbers come from

| | |
|---|---|
| weights | sha256 `{{ model.weights_sha256 }}` |
| tokenizer | sha256 `{{ model.tokenizer_sha256 }}` |
| corpus | sha256 `{{ corpus.sha256 }}` |
| computed in | {{ model.dtype }} on {{ model.device }} |
| versions | {% for name, number in versions.items() %}{{ name }} {{ number }}{{ ", " if not loop.last }}{% endfor %} |

## To cite

```bibtex
{{ papers }}
```
"""


def publish(
    run: str | Path,
    title: str | None = None,
    *,
    license: str | None = None,
    push_to_hub: str | None = None,
    private: bool = True,
) -> str:
    """Makes a finished run a data set for others: writes a data card beside its Parquet tables.

    The card says what was measured, with which model, weights, corpus and versions, how the tables are read, and what
    to cite. With it, `datasets.load_dataset(folder, "tokens")` reads the folder, here or on the Hub.

    Args:
        run: the folder of the run; every checksum is compared first
        title: of the card; model and corpus unless given
        license: of the data, as the Hub names it, such as "cc-by-4.0"; left open unless given
        push_to_hub: a data set on the Hub, "organisation/name", to put the folder there; nothing leaves this machine
            without it. The journal of the run stays here
        private: whether a data set that is made on the Hub is private

    Returns:
        Where the card is, or the data set's address on the Hub.

    Examples:
        >>> _ = whence.run(whence.load(), ["Paris is a city."], ["mixing"], out="run")
        >>> whence.publish("run", license="cc-by-4.0")
        'run/README.md'
    """
    if push_to_hub is not None and not (isinstance(push_to_hub, str) and REPOSITORY.fullmatch(push_to_hub)):
        raise BadInput(f"A data set on the Hub is called organisation/name, and {push_to_hub!r} was given.")
    opened = open_run(run)
    if not opened.finished:
        raise BadInput(f"The run in {str(run)!r} is not finished; start it again, and it resumes.")
    if push_to_hub is not None and not opened.store.local:
        raise BadInput(f"Only a folder on this machine is put on the Hub, and {str(run)!r} is elsewhere; copy it here.")
    opened.store.write(PLAIN, as_parquet(_plain(opened)))
    opened.store.write(CARD, _card(opened, title, license).encode())
    if push_to_hub is None:
        return f"{str(run).rstrip('/')}/{CARD}"
    return upload(opened.store.root, push_to_hub, private, APART)


def _card(run: Run, title: str | None, license: str | None) -> str:
    manifest = run.manifest
    plan, model, corpus = manifest["plan"], manifest["model"], manifest["corpus"]
    written = {name.partition("/")[0] for record in run.records for name in record["files"]}
    form = Environment(undefined=StrictUndefined, keep_trailing_newline=True).from_string(FORM)
    return form.render(
        title=title or f"{model['id']} on {corpus['name']}",
        license=license,
        model=model,
        corpus=corpus,
        versions=manifest["versions"],
        options=f"`{json.dumps(plan['options'], sort_keys=True)}`" if plan["options"] else "the defaults",
        rows=_rows(plan["measures"]),
        tables=TABLES,
        configs={name: files for name, (files, _) in TABLES.items() if name in written},
        papers=cite(run),
    )


def _rows(names: list[str]) -> list[tuple[str, str, str, str]]:
    """Measure, variable, what it says and its unit; a run of predictions has both of theirs, or the one it names."""
    known = measures()
    measured = [
        (name, variable, declared.about, declared.unit)
        for name in names
        if name in known
        for variable, declared in known[name].variables.items()
    ]
    of_predictions = [name for name in PREDICTIONS if {WHY, name} & set(names)]
    return measured + [(WHY, name, *PREDICTIONS[name]) for name in of_predictions]


def _plain(run: Run) -> pyarrow.Table:
    table = run.arrow("sentences").to_table()
    labels = [json.dumps(dict(row or ()), ensure_ascii=False, sort_keys=True) for row in table["labels"].to_pylist()]
    return table.set_column(table.schema.get_field_index("labels"), "labels", pyarrow.array(labels, pyarrow.string()))
