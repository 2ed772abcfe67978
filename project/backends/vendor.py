"""Choose the installed backend that runs the network with cuDNN's convolution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec

from course.errors import NoGpuError

from backends import Backend


@contextmanager
def cudnn() -> Iterator[Backend]:
    """Open the GPU for cuDNN: by its own binding, else by PyTorch."""
    if _installed("pycuda", "cudnn"):
        with _loading():
            from gpu.device import Device

            from backends.cudnn_gpu import CudnnGpu
        with Device() as device, closing(CudnnGpu(device)) as backend:
            yield backend
    elif _installed("torch"):
        with _loading():
            from backends.torch_gpu import TorchGpu
        with TorchGpu() as backend:
            yield backend
    else:
        raise NoGpuError(
            "cannot use cuDNN: run `pip install -e '.[gpu]'` at the project's top, or "
            "install torch"
        )


def _installed(*packages: str) -> bool:
    return all(find_spec(package) for package in packages)


@contextmanager
def _loading() -> Iterator[None]:
    """Convert errors of importing an installed package."""
    try:
        yield
    except (ImportError, OSError) as error:
        raise NoGpuError(f"cannot use cuDNN: {error}") from None
