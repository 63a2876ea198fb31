"""What it costs to send vectors through blocks, and every constant that was tuned, with the benchmark that set it.

Work is counted in products with m x m matrices per token. `python -m benchmarks jacobian` and `python -m benchmarks
targets` measure what the constants stand for; `python -m benchmarks.memory` those that are about memory.
"""

from collections.abc import Sequence

# benchmarks jacobian: products per vector, through a block by its parts or its own code, and through its matrices
PLAIN, MULTIPLIED = 12, 4
# benchmarks jacobian: products per dimension to make the matrices of a block whose parts are not known, of one with a
# norm before its attention, of one where all tokens are read alike
UNKNOWN, NORMED, ALIKE = 14, 9, 6
# benchmarks lens: products per dimension to make what happens to a token alone into one matrix (`dense`)
DENSE = 3
# benchmarks targets: vectors from which a block by its parts, made and checked first, is quicker than its own code
PARTS = 32
# benchmarks jacobian: multiply-adds up to which `auto` is exact, some two seconds of one core
EXACT = 10**11
# benchmarks jacobian: rows of the matrix products, enough of them for full speed and few enough for the cache; with a
# matrix for every token at least so many vectors
ROWS, VECTORS = 2048, 32
# benchmarks.memory: what one vector has alive inside a block, in tensors as wide as the stream and as large as the
# attention; in blocks that are not known to attend, in tensors as large as the largest
WIDE, SQUARE, ALIVE = 24, 6, 8
# benchmarks jacobian, local: bytes of the largest tensor of pairs, and the share of the memory that it is at most
PAIRS, PAIRS_SHARE = 2**26, 8


def pulls(sources: int, targets: int, layers: Sequence[int]) -> bool:
    """Whether vectors of the targets, pulled from every layer, pass fewer blocks than those of the sources pushed."""
    return targets * sum(layers) < sources * max(layers)


def making(known: bool, alike: bool) -> int:
    """What the matrices of a block cost, per dimension."""
    if not known:
        return UNKNOWN
    return ALIKE if alike else NORMED


def multiplying_pays(vectors: int, width: int, making: int) -> bool:
    """Whether making the matrices of a block costs less than they save so many vectors."""
    return making * width + MULTIPLIED * vectors < PLAIN * vectors


def work(passes: int, blocks: int, tokens: int, width: int, making: int) -> int:
    """Multiply-adds of vectors that pass so many blocks together, out of `blocks` different ones."""
    return tokens * width**2 * min(PLAIN * passes, making * width * blocks + MULTIPLIED * passes)


def exact_is_quick(tokens: int, width: int, sources: int, targets: int, layers: Sequence[int]) -> bool:
    """Whether a person would wait for every dimension of the sources pushed, or of the targets pulled."""
    passes = width * min(sources * max(layers), targets * sum(layers))
    return work(passes, max(layers), tokens, width, NORMED) <= EXACT


def inside(tokens: int, width: int, heads: int, number: int) -> int:
    """Bytes that one vector takes while it goes through a block."""
    return number * tokens * (WIDE * width + SQUARE * heads * tokens)


def together(tokens: int, room: int, least: int = 1) -> int:
    """How many vectors go through a block at a time, of those that there is room for."""
    return min(max(ROWS // tokens, least), room)
