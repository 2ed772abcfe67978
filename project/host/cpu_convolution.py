"""Our own convolution in C++, compiled for this processor on first use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np
from course import shapes
from course.errors import CompilerError
from host import native

LIBRARY = native.Library(
    "convolution", (Path(__file__).resolve().parents[1] / "cpp" / "convolution.cpp",)
)


@cache
def load() -> Callable[..., None]:
    """Compile and load the function; raise CompilerError."""
    return open_at(native.build(LIBRARY))


def open_at(path: Path) -> Callable[..., None]:
    """Load the function from a compiled library; raise CompilerError."""
    try:
        function = ctypes.CDLL(str(path)).rai_convolve
    except (OSError, AttributeError) as error:
        raise CompilerError(
            f"{path} does not load: {error}; if its file system is mounted noexec, "
            "set XDG_CACHE_HOME to another folder"
        ) from None
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 7
    function.restype = None
    return function


def convolve(y: np.ndarray, x: np.ndarray, weights: np.ndarray) -> None:
    """Convolve on all cores into y, which is float32 and contiguous."""
    call(load(), cores.COUNT, y, x, weights)


def call(
    function: Callable[..., None],
    threads: int,
    y: np.ndarray,
    x: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Call the C++ function; raise ValueError for an unsuitable y."""
    shape = shapes.between(y.shape, x.shape, weights.shape)
    if y.dtype != np.float32 or not y.flags.carray:
        raise ValueError("the output must be float32, contiguous and writeable")
    # Arrays read from a file may be unaligned, which C++ does not allow.
    x, weights = (np.require(array, np.float32, "CA") for array in (x, weights))
    pointers = (array.ctypes.data for array in (y, x, weights))
    sizes = (shape.B, shape.M, shape.C, shape.H, shape.W, shape.K)
    function(*pointers, *sizes, threads)
