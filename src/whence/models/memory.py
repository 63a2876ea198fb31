"""How much memory a computation will take, said before it is taken."""

from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch

from whence.errors import BadInput

# scores and those plus the mask, or past the softmax: what the eager attention of transformers has alive at once
EAGER_COPIES = 2
SHARE = 0.9
HOST = torch.device("cpu")
# of pieces that were freed the allocator keeps up to half, where they are small enough for its heap (glibc: 32 MB)
KEEPS, HEAP = 0.5, 48 * 10**6


@dataclass(frozen=True)
class Needs:
    """Bytes of the results, on the host; of what is held on the model's device; and what is used there of a budget.

    `least` is the smallest budget that works.
    """

    results: int
    held: int
    uses: Callable[[int], int]
    least: int = 0

    def on(self, device: torch.device) -> int:
        """What does not depend on the budget; where the model is on the host, results and all."""
        return self.held + (self.results if device.type == HOST.type else 0)


def attention_bytes(batch: int, heads: int, tokens: int) -> int:
    """What one block's eager attention takes while it is computed, in float32."""
    return 4 * EAGER_COPIES * batch * heads * tokens * tokens


def resident(alive: int) -> int:
    """How much a process grows while at most this many bytes are alive."""
    return alive + min(int(KEEPS * alive), HEAP)


def free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def budget(needs: Needs, device: torch.device, limit: int | None, most: int) -> int:
    """How many bytes are left for what may be more or less: `most`, or what the limit or the free memory leaves."""
    return max(needs.least, min(most, _allowed(device, limit) - needs.on(device) - HEAP))


def claim(
    needed: int,
    tokens: int,
    device: torch.device,
    limit: int | None,
    remedy: str | Callable[[], str] = "shorten the text",
) -> None:
    """Refuses, with a remedy, what would not fit into the free memory or the limit given."""
    allowed = _allowed(device, limit)
    if needed > allowed:
        remedy = remedy() if callable(remedy) else remedy
        raise BadInput(
            f"{tokens:,} tokens need {gigabytes(needed)} for what was asked and {gigabytes(allowed)} may be used;"
            f" {remedy}."
        )


def _allowed(device: torch.device, limit: int | None) -> int:
    return int(SHARE * free_bytes(device)) if limit is None else limit


def gigabytes(count: int) -> str:
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"
