"""How much memory a pass will take, said before it is taken."""

import psutil
import torch

from whence.errors import BadInput

# scores, scores plus mask, softmax: what the eager attention of transformers has alive at once
EAGER_COPIES = 3
SHARE = 0.9


def attention_bytes(batch: int, heads: int, tokens: int) -> int:
    """What one block's eager attention takes while it is computed, in float32."""
    return 4 * EAGER_COPIES * batch * heads * tokens * tokens


def free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def claim(needed: int, tokens: int, device: torch.device, limit: int | None) -> None:
    """Refuses, with a way out, what would not fit into the free memory or the limit given."""
    allowed = int(SHARE * free_bytes(device)) if limit is None else limit
    if needed > allowed:
        raise BadInput(
            f"{tokens:,} tokens need {gigabytes(needed)} for what was asked and {gigabytes(allowed)} may be used;"
            " ask for fewer measures or layers, or shorten the text."
        )


def gigabytes(count: int) -> str:
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"
