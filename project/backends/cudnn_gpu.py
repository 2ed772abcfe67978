"""The network on the GPU, its convolutions by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from types import TracebackType

import numpy as np
from cudnn_convolution import Cudnn
from device import DeviceArray
from shapes import ConvShape

from backends.cuda_gpu import CudaLayers

WORKSPACE = 256 << 20  # bytes that cuDNN may use beside the arrays


class CudnnGpu(CudaLayers):
    """Layers by our kernels, convolutions by the vendor's library."""

    name = "cudnn"

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()
        super().__exit__(kind, error, trace)

    def prepare(self, convolutions: Sequence[ConvShape]) -> None:
        """Plan every convolution, for whole pieces and for what is left over."""
        self._opened.close()
        # It is there before the images are counted that fit beside it.
        workspace = self.device.empty((WORKSPACE,), np.uint8)
        super().prepare(convolutions)
        self._cudnn = self._opened.enter_context(closing(Cudnn(workspace)))
        for shape in convolutions:
            for images in pieces(shape.B, self.batch):
                self._cudnn.plan(replace(shape, B=images))

    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Run the plan for these sizes."""
        self._cudnn.convolve(y, x, weights)


def pieces(images: int, most: int) -> set[int]:
    """Say what numbers of images come at a time: ``most``, and what is left over."""
    return {min(images, most), images % most} - {0}
