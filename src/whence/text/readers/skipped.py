"""What was not read, and why: everything left out is either an error or counted here."""

from collections import Counter
from dataclasses import dataclass, field

from whence.errors import BadInput

SHOWN = 10  # reasons kept in full


@dataclass
class Skipped:
    """What one iteration over a corpus left out: whole sentences, and `within` the kept ones smaller things."""

    name: str
    forgiving: bool = False
    "Malformed records are counted; otherwise the first is an error."
    count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)
    within: Counter[str] = field(default_factory=Counter)

    def bad(self, kind: str, reason: str, line: int) -> None:
        """A record that cannot be parsed: an error, or counted as skipped."""
        if not self.forgiving:
            raise BadInput(
                f"{self.name}, line {line}: {reason} Correct it, or leave such records out with --skip-bad"
                " (in Python: skip_bad=True)."
            )
        self.left_out(kind, reason, line)

    def left_out(self, kind: str, reason: str, line: int) -> None:
        """A record that is well-formed but has nothing to measure."""
        self.count += 1
        self.kinds[kind] += 1
        if len(self.first) < SHOWN:
            self.first.append(f"{self.name}, line {line}: {reason}")

    def __str__(self) -> str:
        parts = [f"{self.count:,} skipped", *(f"{number:,} {kind}" for kind, number in self.kinds.most_common())]
        inside = [f"{number:,} {kind}" for kind, number in self.within.most_common() if number]
        return ", ".join(parts) + (f"; left out of kept sentences: {', '.join(inside)}" if inside else "")
