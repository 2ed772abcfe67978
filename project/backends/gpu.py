"""The network on the GPU with a kernel of ours, by what the user chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from variants import Variant

from backends import Backend

NAMES = ("cuda", "mxnet")


@contextmanager
def opened(name: str | None) -> Iterator[Callable[[Variant], Backend]]:
    """Open the GPU; give what makes a backend of a variant.

    ``cuda`` runs all layers on the GPU. ``mxnet`` runs them in MXNet on the CPU, with
    the convolutions alone on the GPU.
    """
    if name == "mxnet":
        from backends.mxnet_cpu import MxnetCpu, operator

        operator().open_gpu()
        yield MxnetCpu
        return
    from device import Device

    from backends.cuda_gpu import CudaGpu

    with Device() as device:
        yield lambda variant: CudaGpu(device, variant)
