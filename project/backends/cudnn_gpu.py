"""The network on the GPU, its convolutions by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from cudnn_convolution import Cudnn
from device import Device, DeviceArray
from shapes import ConvShape

from backends.cuda_gpu import CudaLayers, pieces

WORKSPACE = 256 << 20  # bytes that cuDNN may use beside the arrays


class CudnnGpu(CudaLayers):
    """Layers by our kernels, convolutions by the vendor's library; close it."""

    name = "cudnn"

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._opened = ExitStack()

    def close(self) -> None:
        """Let the library go, while the device is still open."""
        self._opened.close()

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Plan every convolution, for whole pieces and for what is left over."""
        self.close()
        # It is there before the images are counted that fit beside it.
        workspace = self.device.empty((WORKSPACE,), "uint8")
        note = super().prepare(convolutions)
        self._cudnn = self._opened.enter_context(closing(Cudnn(workspace)))
        for shape in convolutions:
            for images in pieces(shape.B, self.batch):
                self._cudnn.plan(replace(shape, B=images))
        return note

    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Run the plan for these sizes."""
        self._cudnn.convolve(y, x, weights)
