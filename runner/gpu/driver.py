"""Check whether an image's CUDA works with a driver and with a GPU.

The oldest drivers (Linux) and compute capabilities of each CUDA are from NVIDIA's CUDA
Compatibility guide and toolkit release notes. Within one major version a newer toolkit
works with an older driver (minor version compatibility).
"""

from __future__ import annotations

import re

from runner.core import Gpu, Problem

OLDEST_DRIVER = {13: "580", 12: "525.60.13", 11: "450.80.02"}
OLDEST_COMPUTE = {13: "7.5", 12: "5.0", 11: "3.5"}
OFFERED = (13, 12)
"""The values of the build argument CUDA of rai's image."""


def problem(cuda: str, driver: str) -> Problem | None:
    """Return a problem if a driver is too old for an image's CUDA.

    ``cuda`` is e.g. "13" or "12.8", ``driver`` e.g. "535.183.01"; if either is unknown
    there is no problem.
    """
    needed = OLDEST_DRIVER.get(numbers(cuda)[0]) if numbers(cuda) else None
    if needed is None or not numbers(driver) or numbers(driver) >= numbers(needed):
        return None
    return Problem(
        f"CUDA {cuda} of the image needs the NVIDIA driver {needed} or newer,"
        f" but the driver is {driver}",
        hint=_older(OLDEST_DRIVER, driver, f"update the driver to {needed} or newer"),
    )


def compute_problem(cuda: str, gpu: Gpu) -> Problem | None:
    """Return a problem if an image's CUDA does not support a GPU, or None."""
    oldest = OLDEST_COMPUTE.get(numbers(cuda)[0]) if numbers(cuda) else None
    have = numbers(gpu.compute)
    if oldest is None or not have or have >= numbers(oldest):
        return None
    return Problem(
        f"CUDA {cuda} of the image needs compute capability {oldest} or newer,"
        f" but {gpu.name} has {gpu.compute}",
        hint=_older(OLDEST_COMPUTE, gpu.compute, "run on a newer GPU"),
    )


def _older(oldest: dict[int, str], have: str, otherwise: str) -> str:
    """Return advice to build with the newest CUDA that works, or ``otherwise``."""
    for major in OFFERED:
        if numbers(have) >= numbers(oldest[major]):
            return f"build the image with `args: {{CUDA: {major}}}`, or {otherwise}"
    return otherwise


def numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, for comparison; () if it is not a version."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()
