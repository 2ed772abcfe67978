"""The registry of the convolutions on the GPU.

A variant is a file ``<name>.cu`` below cuda/, a plan and an entry: the course's
optimisations in ``ladder.py``, those on tensor cores in ``tensor_rungs.py``, what
leads from there to the fastest in ``hopper_rungs.py``, the fastest in
``per_layer.py``, ``mma_split.py`` and ``best_*.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from course import variants
from course.errors import UsageError
from course.variants import FP32, HALF, TF32, Variant, first_of
from plans import (
    best_one,
    best_single,
    best_small,
    best_split,
    hopper_rungs,
    ladder,
    mma_split,
    per_layer,
    tensor_rungs,
)

_RUNGS = variants.ladder(*ladder.RUNGS, *tensor_rungs.RUNGS)


def _or_split(rung: Variant) -> Variant:
    """Return a rung that leaves the shapes that it refuses to ``tensor_split``."""
    return first_of(
        *(rung.name, rung.idea, rung.after or "", rung, _RUNGS["tensor_split"])
    )


# Choices are ordered by speed; see RESULTS.md. Strips are none of them: their error is
# bounded by the norm of an image only.
VARIANTS = variants.ladder(
    *_RUNGS.values(),
    *map(_or_split, hopper_rungs.RUNGS),
    per_layer.RUNG,
    first_of(
        "best",
        "the fastest of fp32 for each shape and GPU",
        "wgmma_split",
        best_one.ONE_FP32,
        best_small.SMALL,
        best_split.SPLIT,
        mma_split.ONE,
        mma_split.SPLIT,
        per_layer.ONE_CHANNEL,
        _RUNGS["tensor_split"],
        _RUNGS["implicit_gemm"],
        _RUNGS["restrict_unroll"],
    ),
    first_of(
        "best_tf32",
        "the fastest of tf32 for each shape and GPU",
        "tensor_tf32",
        best_one.ONE_TF32,
        best_single.SINGLE_TF32,
        _RUNGS["tensor_tf32"],
    ),
    first_of(
        "best_half",
        "the fastest of half for each shape and GPU",
        "tensor_half",
        best_one.ONE_HALF,
        best_single.SINGLE_HALF,
        _RUNGS["tensor_half"],
    ),
)

BEST = {FP32: "best", TF32: "best_tf32", HALF: "best_half"}
"""The fastest variant of each accuracy class."""


def best(accuracy: str) -> Variant:
    """Return the fastest variant of an accuracy class."""
    return VARIANTS[BEST[accuracy]]


def select(names: Sequence[str]) -> list[Variant]:
    """Return variants by name, by default the optimised ones of ``ladder.py``.

    The others take half a minute to compile, so they are run only by name. Raises
    UsageError for an unknown name.
    """
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        known = ", ".join(VARIANTS)
        raise UsageError(f"unknown variant `{unknown[0]}`; choose from {known}")
    optimised = [rung.name for rung in ladder.RUNGS if rung.after]
    return [VARIANTS[name] for name in names or optimised]
