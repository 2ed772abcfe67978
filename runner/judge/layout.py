"""Where arrays lie in shared memory: at random places, apart from each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

ALIGNMENT = 256
"""Bytes, as cuMemAlloc aligns."""

LEAST_SLACK, MOST_SLACK = 1 << 20, 64 << 20


def padded(size: int) -> int:
    """Return a size in bytes as a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def room(sizes: Sequence[int]) -> int:
    """Return the bytes of a region for arrays of these sizes, with room to move."""
    needed = sum(map(padded, sizes))
    return needed + max(LEAST_SLACK, min(MOST_SLACK, needed // 4))


def places(sizes: Mapping[str, int], size: int, random: Random) -> dict[str, int]:
    """Return an offset for each array in a region of ``size`` bytes.

    Order and distances are random; before, after and between them is a gap.
    """
    names = list(sizes)
    random.shuffle(names)
    free = (size - sum(padded(sizes[name]) for name in names)) // ALIGNMENT
    gaps = len(names) + 1
    if free < gaps:
        raise ValueError(f"{size} bytes are too few for {dict(sizes)}")
    cuts = sorted(random.randrange(free - gaps + 1) for _ in names)
    found, used = {}, 0
    for n, name in enumerate(names):
        found[name] = (cuts[n] + n + 1) * ALIGNMENT + used
        used += padded(sizes[name])
    return found
