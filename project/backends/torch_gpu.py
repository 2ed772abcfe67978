"""Run the network on the GPU with PyTorch, whose convolutions are cuDNN's."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np
import torch
from course.errors import GpuError, NoGpuError
from torch import Tensor
from torch.nn import functional

from backends.layerwise import Layerwise


class TorchGpu(Layerwise[Tensor]):
    """A backend of PyTorch's tensors, to be used in a ``with`` statement."""

    name = "torch"
    batch = 2500  # 0.7 GB in the largest edition

    def __init__(self) -> None:
        try:
            torch.cuda.init()
        except (AssertionError, RuntimeError) as error:
            raise NoGpuError(f"cannot use a GPU: PyTorch: {_line(error)}") from None
        self._inference = torch.inference_mode()

    def __enter__(self) -> Self:
        self._inference.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inference.__exit__(kind, error, trace)
        if isinstance(error, RuntimeError):
            raise GpuError(f"PyTorch: {_line(error)}") from None

    def put(self, array: np.ndarray) -> Tensor:
        """Upload an array; convert bytes to floats on the GPU, to transfer less."""
        return torch.tensor(array, device="cuda").float()

    def get(self, array: Tensor) -> np.ndarray:
        """Download an array."""
        here: np.ndarray = array.cpu().numpy()
        return here

    def zeros(self, shape: tuple[int, ...]) -> Tensor:
        """Allocate an array and write zeros."""
        return torch.zeros(shape, device="cuda")

    def wait(self) -> None:
        """Return when the GPU is idle."""
        torch.cuda.synchronize()

    def convolution(self, y: Tensor, x: Tensor, weights: Tensor) -> None:
        """Convolve with cuDNN's default algorithm, never in TF32."""
        torch.cudnn_convolution(
            x,
            weights,
            padding=(0, 0),
            stride=(1, 1),
            dilation=(1, 1),
            groups=1,
            benchmark=False,
            deterministic=False,
            allow_tf32=False,
            out=y,
        )

    def pooling(self, x: Tensor) -> Tensor:
        """Apply 2 x 2 max pooling."""
        return functional.max_pool2d(x, 2)

    def tanh(self, x: Tensor) -> Tensor:
        """Apply the hyperbolic tangent in place."""
        return x.tanh_()

    def dense(self, x: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        """Multiply by the weights' rows and add the bias."""
        return functional.linear(x.flatten(1), weights, bias)

    def softmax(self, x: Tensor) -> Tensor:
        """Apply softmax."""
        return x.softmax(dim=1)


def _line(error: BaseException) -> str:
    """Return an error's first line."""
    return str(error).partition("\n")[0] or type(error).__name__
