"""The same forward pass in PyTorch, in fp32, with cuDNN's convolutions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from course.network import Network
from gpu import forward
from torch import Tensor
from torch.nn import functional


class TorchPass:
    """A network of two convolutions in PyTorch, with images on the GPU as floats."""

    def __init__(self, network: Network, images: np.ndarray) -> None:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_grad_enabled(False)
        names = forward.chain(network.model.layers, 1, network.edition.size).arrays
        arrays = [np.asarray(network.weights[n], np.float32) for n in names]
        self._weights = [torch.tensor(array, device="cuda") for array in arrays]
        self._x = torch.tensor(images[:, np.newaxis], device="cuda").float()

    def ways(self) -> dict[str, Callable[[], Tensor]]:
        """Return each way to run it; a first call selects algorithms and compiles."""
        last = self._x.contiguous(memory_format=torch.channels_last)
        compiled = torch.compile(probabilities)
        return {
            "PyTorch, eager": lambda: probabilities(self._x, *self._weights),
            "PyTorch, eager, NHWC": lambda: probabilities(last, *self._weights),
            "PyTorch, compiled": lambda: compiled(self._x, *self._weights),
        }


def probabilities(x: Tensor, *weights: Tensor) -> Tensor:
    """Run the network layer by layer."""
    first, second, dense, dense_bias, last, last_bias = weights
    pooled = functional.max_pool2d(functional.conv2d(x, first).tanh(), 2)
    flat = functional.conv2d(pooled, second).flatten(1)
    hidden = functional.linear(flat, dense, dense_bias).tanh()
    return functional.linear(hidden, last, last_bias).softmax(dim=1)
