"""Our own convolution on the CPU in C++, built for this processor on first use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import cores
import native
import numpy as np
import shapes
from errors import CompilerError

LIBRARY = native.Library(
    "convolution", (Path(__file__).resolve().parent / "cpp" / "convolution.cpp",)
)


@cache
def load() -> Callable[..., None]:
    """Build and load it; CompilerError says why that cannot be here."""
    return open_at(native.build(LIBRARY))


def open_at(path: Path) -> Callable[..., None]:
    """Load the function out of a library that was built."""
    try:
        function = ctypes.CDLL(str(path)).rai_convolve
    except (OSError, AttributeError) as error:
        raise CompilerError(
            f"{path} was built and does not load: {error}; where its folder may hold "
            "no programs (noexec), set XDG_CACHE_HOME to one that may"
        ) from None
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 7
    function.restype = None
    return function


def convolve(y: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
    """Convolve on every core; y is float32 without gaps and is written entirely."""
    call(load(), cores.COUNT, y, x, weights)


def call(
    function: Callable[..., None],
    threads: int,
    y: np.ndarray,
    x: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Hand arrays over to the function in C++."""
    shape = shapes.between(y.shape, x.shape, weights.shape)
    if y.dtype != np.float32 or not y.flags.carray:
        raise ValueError("the output must be float32, contiguous and writeable")
    # What was read from a file may lie at any byte, which C++ does not allow.
    x, weights = (np.require(array, np.float32, "CA") for array in (x, weights))
    pointers = (array.ctypes.data for array in (y, x, weights))
    sizes = (shape.B, shape.M, shape.C, shape.H, shape.W, shape.K)
    function(*pointers, *sizes, threads)
