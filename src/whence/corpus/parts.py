"""How a corpus is cut: numbered parts in its own order, and inside a part batches of sentences of like length."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from whence.errors import BadInput
from whence.models.fingerprint import corpus_sha256
from whence.text.sentence import Sentence, sentence


@dataclass(frozen=True)
class Part:
    """Sentences `first` and following, counted from 0."""

    number: int
    first: int
    sentences: tuple[Sentence, ...]

    @property
    def sha256(self) -> str:
        """Of texts and annotations: what the part's tables are made from."""
        return corpus_sha256(self.sentences)


def cut(corpus: Iterable[object], size: int) -> Iterator[Part]:
    """Parts of `size` sentences, the last one smaller; only one is in memory at a time."""
    checked = (_checked(number, given) for number, given in enumerate(corpus))
    number = 0
    while sentences := tuple(islice(checked, size)):
        yield Part(number, number * size, sentences)
        number += 1


def batches(lengths: Sequence[int], rows_of: Callable[[int], int]) -> list[list[int]]:
    """Places of sentences that are measured together, longest first; `rows_of(longest)` is how many fit."""
    order = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    found: list[list[int]] = []
    while order:
        rows = max(1, rows_of(lengths[order[0]]))
        found.append(order[:rows])
        order = order[rows:]
    return found


def _checked(number: int, given: object) -> Sentence:
    try:
        return sentence(given)
    except BadInput as error:
        raise BadInput(f"Sentence {number:,} of the corpus, counted from 0: {error}") from error
