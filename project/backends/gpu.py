"""Choose the backend that runs the network on the GPU with one of our kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from course.variants import Variant

from backends import Backend

NAMES = ("cuda", "mxnet")


@contextmanager
def opened(name: str | None) -> Iterator[Callable[[Variant], Backend]]:
    """Open the GPU; yield a function from a variant to a backend.

    ``cuda`` runs all layers on the GPU. ``mxnet`` runs the convolutions on the GPU and
    all other layers in MXNet on the CPU.
    """
    if name == "mxnet":
        from backends.mxnet_cpu import MxnetCpu, operator

        operator().open_gpu()
        yield MxnetCpu
        return
    from gpu.device import Device

    from backends.cuda_gpu import CudaGpu

    with Device() as device:
        yield lambda variant: CudaGpu(device, variant)
