"""Import MXNet, or explain why it does not load. No other module imports it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np
from course.errors import MissingError

STDERR = 2  # its file descriptor
INSTALL = "run `make mxnet`"
NEEDS = (
    "it needs Linux or an Intel Mac, Python 3.11 or 3.12 (3.12 with setuptools), NumPy "
    "1.x, and Debian's packages libgomp1 and libquadmath0 or their like"
)


def available() -> bool:
    """Return whether MXNet is installed; it may still fail to load."""
    return find_spec("mxnet") is not None


def folder() -> Path:
    """Return the package's folder without importing it; raise MissingError."""
    spec = find_spec("mxnet")
    if spec is None or spec.origin is None:
        raise MissingError(problem(ModuleNotFoundError(name="mxnet")))
    return Path(spec.origin).parent


@cache
def loaded() -> ModuleType:
    """Import MXNet with a thread for each core; raise MissingError."""
    # The default, which fuses tanh with the convolution, is three times slower.
    os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")
    try:
        with _expected(), quiet():
            import mxnet
    except (ImportError, OSError, AttributeError) as error:
        raise MissingError(problem(error)) from None
    module: ModuleType = mxnet
    return module


def problem(error: Exception) -> str:
    """Return why MXNet does not load, and what to do."""
    if isinstance(error, ModuleNotFoundError) and error.name == "mxnet":
        return f"MXNet is not installed; {INSTALL}"
    return f"MXNet does not load: {error}; {INSTALL}"


@contextmanager
def _expected() -> Iterator[None]:
    """Provide what MXNet reads as it loads.

    That is OpenMP's number of threads, which ``cores`` has set for NumPy, and
    `numpy.bool`, which NumPy 1.24 removed.
    """
    threads, lacking = os.environ["OMP_NUM_THREADS"], "bool" not in vars(np)
    os.environ["OMP_NUM_THREADS"] = str(cores.COUNT)
    if lacking:
        np.bool = bool  # type: ignore[misc]
    try:
        yield
    finally:
        os.environ["OMP_NUM_THREADS"] = threads
        if lacking:
            del np.bool


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings, also those that MXNet's C++ writes to stderr."""
    with warnings.catch_warnings(), ExitStack() as after:
        warnings.simplefilter("ignore")
        with suppress(OSError):  # stderr may be closed
            kept = os.dup(STDERR)
            after.callback(os.close, kept)
            after.callback(os.dup2, kept, STDERR)
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), STDERR)
        yield


def main() -> None:
    """Print MXNet's version, or why it does not load."""
    try:
        print(f"MXNet {loaded().__version__} is installed and loads.")
    except MissingError as error:
        print(f"{error}; {NEEDS}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
