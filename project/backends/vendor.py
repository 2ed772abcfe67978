"""The network on the GPU with the vendor's convolution, by what is installed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

from errors import NoGpuError

from backends import Backend


def cudnn() -> AbstractContextManager[Backend[Any]]:
    """Reach cuDNN by its own binding, or by PyTorch where only that is installed."""
    if _installed("pycuda", "cudnn"):
        from backends.cudnn_gpu import CudnnGpu

        return CudnnGpu()
    if _installed("torch"):
        from backends.torch_gpu import TorchGpu

        return TorchGpu()
    raise NoGpuError(
        "cuDNN cannot be used: neither pycuda with nvidia-cudnn-frontend is installed "
        "nor torch; install either, or run this in the image `full`"
    )


def _installed(*packages: str) -> bool:
    return all(find_spec(package) for package in packages)
