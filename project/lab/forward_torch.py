"""The same forward pass in PyTorch, in fp32, with cuDNN's convolutions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from course import program
from course.network import Network
from gpu import forward
from lab.bench_torch import LAYOUTS
from lab.measurement import Way
from torch import Tensor
from torch.nn import functional

MODES = {
    "eager": None,
    "compiled": "default",
    "max-autotune": "max-autotune-no-cudagraphs",  # which would copy the images
}
PIECE = 1000  # images of float64 at a time


class TorchPass:
    """A network of two convolutions in PyTorch, with images on the GPU as floats."""

    def __init__(self, network: Network, images: np.ndarray) -> None:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_grad_enabled(False)
        torch.compiler.reset()  # it keeps few versions of a function
        names = forward.chain(network.model.layers, 1, network.edition.size).arrays
        arrays = [np.asarray(network.weights[n], np.float32) for n in names]
        self._weights = [torch.tensor(array, device="cuda") for array in arrays]
        self._x = torch.tensor(images[:, np.newaxis], device="cuda").float()

    def exact(self) -> np.ndarray:
        """Return the probabilities in float64."""
        weights = [array.double() for array in self._weights]
        pieces = [probabilities(x.double(), *weights) for x in self._x.split(PIECE)]
        found: np.ndarray = torch.cat(pieces).cpu().numpy()
        return found

    def ways(self, *, graphs: bool) -> Iterator[tuple[str, Way]]:
        """Yield each way that runs here, by a CUDA graph too; says which does not."""
        for mode, named in MODES.items():
            for layout, kind in LAYOUTS.items():
                name = f"{mode}, {layout}"
                try:
                    way = self._way(named, kind)
                    yield name, way
                    if graphs:
                        yield f"{name}, graph", _graph(way)
                except Exception as error:  # such as torch.compile without a C compiler
                    program.warn(f"PyTorch, {name}: {error}")

    def _way(self, mode: str | None, kind: torch.memory_format) -> Way:
        """Return a way after its first calls, which select algorithms and compile."""

        def laid(array: Tensor) -> Tensor:
            if array.dim() != self._x.dim():
                return array
            return torch.empty_like(array, memory_format=kind).copy_(array)

        inputs = [laid(array) for array in (self._x, *self._weights)]
        run = probabilities
        if mode:
            run = torch.compile(probabilities, mode=mode, dynamic=False)
        for _ in range(3):
            run(*inputs)
        return lambda: run(*inputs)


def _graph(way: Way) -> Way:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        way()
    replay: Way = graph.replay
    return replay


def probabilities(x: Tensor, *weights: Tensor) -> Tensor:
    """Run the network layer by layer."""
    first, second, dense, dense_bias, last, last_bias = weights
    pooled = functional.max_pool2d(functional.conv2d(x, first).tanh(), 2)
    flat = functional.conv2d(pooled, second).flatten(1)
    hidden = functional.linear(flat, dense, dense_bias).tanh()
    return functional.linear(hidden, last, last_bias).softmax(dim=1)
