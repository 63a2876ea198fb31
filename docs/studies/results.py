"""Writes what a study found into its page: python docs/studies/results.py FOLDER_OF_THE_STUDY ..."""

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
PICTURES = HERE.parent / "pictures"
# the pictures a page shows
SHOWN = {
    "mixing": ("mixing_means", "mixing_by_type", "mixing_depth"),
    "attention-identifiability": ("correlation_by_length", "attention_by_type", "alternative_attention"),
    "attribution": ("own_0", "neighbours_0", "tracked"),
    "token-identifiability": (
        "identity_rates",
        "identity_across_linear_cosine",
        "identity_neighbours_linear_cosine",
    ),
    "lm-head": ("head_spearman", "head_hits", "head_changes", "head_lens"),
    "lens": ("lens_cloze", "lens_rank"),
    "referee": ("referee_comprehensiveness",),
    "lost": ("lost_layers", "lost_associations"),
    "correlates": ("coreference", "open_closed", "between_measures"),
}


def main(folders: list[str]) -> None:
    for folder in map(Path, folders):
        found = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
        name = found["about"]["measures"]
        (HERE / "results" / f"{name}.md").write_text(_page(name, folder, found), encoding="utf-8")


def _page(name: str, folder: Path, found: dict) -> str:
    about = found["about"]
    rows = [
        f"| {claim['verdict']} | {_plain(claim['says'])} | {_plain(claim['statistic'])} |" for claim in found["claims"]
    ]
    lines = [
        f"## On the built-in model ({about['data']}; {about['sample']})\n",
        "| | finding | here |\n|---|---|---|",
        *rows,
        "",
        *(_picture(name, folder, picture) for picture in SHOWN[name]),
    ]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """G* is no emphasis."""
    return text.replace("*", "\\*")


def _picture(name: str, folder: Path, picture: str) -> str:
    target = PICTURES / f"study_{name}_{picture}.svg"
    shutil.copy(folder / "charts" / f"{picture}.svg", target)
    return f"![{picture.replace('_', ' ')}](../pictures/{target.name})\n"


if __name__ == "__main__":
    main(sys.argv[1:])
