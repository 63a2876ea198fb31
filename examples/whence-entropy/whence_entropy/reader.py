"""Sentences of a TMX file, the XML that translation memories are exchanged in."""

from collections.abc import Iterator
from xml.etree import ElementTree

from whence.errors import BadInput
from whence.text.readers.formats import Format
from whence.text.readers.skipped import Skipped
from whence.text.sentence import Sentence

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def tmx(path: str, skipped: Skipped, lang: str = "en") -> Iterator[Sentence]:
    """The text of every unit in one language, in order; a unit without it is counted as left out."""
    try:
        units = ElementTree.parse(path).iter("tu")
    except ElementTree.ParseError as error:
        raise BadInput(f"{path!r} is no XML: {error}.") from error
    for number, unit in enumerate(units, start=1):
        texts = [_text(variant) for variant in unit.iter("tuv") if variant.get(LANGUAGE, "").lower().startswith(lang)]
        if not any(texts):
            skipped.left_out("without the language", f"unit {number} has nothing in {lang!r}.", number)
            continue
        yield Sentence(next(filter(None, texts)), id=unit.get("tuid") or str(number))


def _text(variant: ElementTree.Element) -> str:
    return "".join("".join(segment.itertext()) for segment in variant.iter("seg")).strip()


TMX = Format("TMX: a translation memory, one language of it", "whence_entropy.reader:tmx", (".tmx", ".xml"))
