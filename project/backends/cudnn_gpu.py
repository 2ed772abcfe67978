"""The network on the GPU, with cuDNN's convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from course.shapes import ConvShape
from gpu.cudnn_convolution import Cudnn
from gpu.device import Device, DeviceArray

from backends.cuda_gpu import CudaGpu, pieces

WORKSPACE = 256 << 20  # bytes that cuDNN may use besides the arrays


class CudnnGpu(CudaGpu):
    """Convolutions by cuDNN, all other layers by our kernels; must be closed."""

    name = "cudnn"

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._opened = ExitStack()

    def close(self) -> None:
        """Release the library; the device must still be open."""
        self._opened.close()

    def prepare(self, convolutions: Sequence[ConvShape]) -> str | None:
        """Plan every convolution, for whole pieces and for the rest."""
        self.close()
        # Allocate it first, so that the images are counted in what is left.
        workspace = self.device.empty((WORKSPACE,), "uint8")
        note = super().prepare(convolutions)
        self._cudnn = self._opened.enter_context(closing(Cudnn(workspace)))
        for piece in pieces(convolutions, self.batch):
            self._cudnn.plan(piece)
        return note

    def convolution(self, y: DeviceArray, x: DeviceArray, weights: DeviceArray) -> None:
        """Run the plan for this shape."""
        self._cudnn.convolve(y, x, weights)
