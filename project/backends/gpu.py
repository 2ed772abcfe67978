"""Open the GPU for the network, with one of our convolutions or cuDNN's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from course.errors import NoGpuError
from course.variants import Variant
from gpu.device import Device

from backends import Backend
from backends.cuda_gpu import CudaGpu

NAMES = ("cuda",)


@contextmanager
def opened(name: str | None = None) -> Iterator[Callable[[Variant], Backend]]:
    """Open the GPU; yield a function from a variant to a backend.

    ``name`` is that of the only backend, or None.
    """
    with Device() as device:
        yield lambda variant: CudaGpu(device, variant)


@contextmanager
def cudnn() -> Iterator[Backend]:
    """Open the GPU for cuDNN."""
    try:
        from backends.cudnn_gpu import CudnnGpu
    except (ImportError, OSError) as error:
        raise NoGpuError(
            f"cannot use cuDNN: {error}; run `pip install -e '.[gpu]'` at the "
            "project's top"
        ) from None
    with Device() as device, closing(CudnnGpu(device)) as backend:
        yield backend
