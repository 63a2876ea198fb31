"""Files of columns named .txt: read as plain text, their tags would be measured as words."""

import re
from itertools import islice

from whence.errors import BadInput
from whence.text.readers.lines import lines, state
from whence.text.readers.tagged import cells

_LOOKED_AT = 200  # lines
_LEAST = 2  # rows that look alike
_TAG = re.compile(r"O|[BIESLU]-\S+")
_NUMBER = re.compile(r"\d+([-.]\d+)?")


def check_text(path: str) -> None:
    """Refuses a file that has a token and its tags on each line, unless the user said it is text."""
    if not state(path):
        return  # what is not a regular file can be read only once
    try:
        texts = [line.text for line in islice(lines(path), _LOOKED_AT) if line.text.strip() and not line.fault]
    except BadInput:
        return  # reported with its line when the corpus is read
    if _is_tagged(texts):
        raise BadInput(
            f"{path} looks like columns, a token and its tags per line; say what it is: ner:{path} for a token and its"
            f" tag, conllu:{path} for Universal Dependencies, text:{path} if each line is a sentence after all."
        )


def _is_tagged(texts: list[str]) -> bool:
    kept = [text for text in texts if not text.startswith(("#", "-DOCSTART-"))]
    rows = [cells(text) for text in kept]
    if len(rows) < _LEAST or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    by_tag = all(_TAG.fullmatch(row[-1]) for row in rows)
    by_number = len(rows[0]) >= 4 and all(_NUMBER.fullmatch(row[0]) for row in rows)
    return by_tag or (by_number and all("\t" in text for text in kept))
