"""The registry of the convolutions on the GPU.

A variant is a file ``cuda/<name>.cu``, a plan and an entry beside it: the rungs that
teach in ``ladder.py``, those on tensor cores in ``tensor_rungs.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import ladder
import tensor_rungs
import variants
from errors import UsageError
from variants import FP32, HALF, TF32, Variant

VARIANTS = variants.ladder(*ladder.RUNGS, *tensor_rungs.RUNGS)

BEST = {FP32: "tensor_split", TF32: "tensor_tf32", HALF: "tensor_half"}
"""The fastest variant of each class of accuracy, as measured on the largest GPU."""


def best(accuracy: str) -> Variant:
    """Give the fastest variant of a class."""
    return VARIANTS[BEST[accuracy]]


def select(names: Sequence[str]) -> list[Variant]:
    """Find variants by name; with none named, all of fp32 that build on another."""
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        known = ", ".join(VARIANTS)
        raise UsageError(f"there is no variant `{unknown[0]}`; there are {known}")
    optimised = [v.name for v in VARIANTS.values() if v.after and v.accuracy == FP32]
    return [VARIANTS[name] for name in names or optimised]
