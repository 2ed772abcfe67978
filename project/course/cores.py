"""Split the images of a batch over the processor's cores.

Import this module before numpy, so that BLAS, which reads the environment when it is
loaded, runs on one thread and each core multiplies its own matrices. If numpy is
already imported, BLAS uses all cores, and a batch is not split, since both together
would start too many threads.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

_AFFINITY = getattr(os, "sched_getaffinity", None)  # Linux only
COUNT = len(_AFFINITY(0)) if _AFFINITY else os.cpu_count() or 1
SHARES = 1 if "numpy" in sys.modules else COUNT
_POOL = ThreadPoolExecutor(SHARES)

if find_spec("numpy") is None:
    sys.exit(
        f"NumPy is not installed for {sys.executable}. In a clone of rai `make run`"
        f" installs it; so does `{sys.executable} -m pip install numpy`"
    )

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def share(work: Callable[[slice], None], images: int) -> None:
    """Call ``work`` on a slice of the images on every core, and wait for all."""
    bounds = [images * core // SHARES for core in range(SHARES + 1)]
    slices = [slice(*pair) for pair in itertools.pairwise(bounds)]
    for _ in _POOL.map(work, slices):
        pass
