"""Run the network in MXNet on the CPU, as the course did.

Our own convolution is MXNet's operator ``New``, in C++ on the CPU or on the GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np
from course import graph, symbol
from course.errors import MissingError, ProjectError, UsageError
from course.network import Inference, Network, OwnKernels
from course.variants import Variant
from host import mxnet_package
from host.mxnet_package import loaded, quiet

from backends import operator_library
from backends.operator_library import LIBCUDA, OperatorLibrary

Module = Any  # mxnet.mod.Module; MXNet has no types
NdArray = Any  # mxnet.nd.NDArray
Descriptions = list[tuple[str, tuple[int, ...]]]

FLOAT = 4  # bytes
DATA = "data"  # the images' name in the course's symbols
PIECE_BYTES = 32 << 20  # of the largest layer, about the size of the caches
GPU_PIECE_BYTES = 128 << 20  # large enough to keep a GPU busy


class MxnetCpu:
    """MXNet's module, with our operator ``New`` where the network has it."""

    name = "mxnet"

    def __init__(
        self,
        variant: Variant | None = None,
        *,
        own: bool = False,
        piece_bytes: int | None = None,
        libcuda: str = LIBCUDA,
    ) -> None:
        self.variant = variant
        self._piece_bytes = piece_bytes or (GPU_PIECE_BYTES if variant else PIECE_BYTES)
        self._libcuda = libcuda
        if own or variant:
            operator()
        if variant:
            operator().open_gpu(libcuda)  # fail early if there is no GPU
        self._mxnet = loaded()

    def infer(self, network: Network, images: np.ndarray) -> Inference:
        """Classify images of bytes, N x size x size, in pieces."""
        count, size, _ = images.shape
        layers = network.model.layers
        largest = max(s.floats_out for s in graph.convolutions(layers, 1, size))
        batch = max(1, min(count, self._piece_bytes // (FLOAT * largest)))
        batches = sorted({batch, count % batch or batch})
        with self._ours(network, batches, size) as ours, _faults(self._mxnet, ours):
            module = self._bound(network, (batch, 1, size, size))
            pieces = (images[at : at + batch] for at in range(0, count, batch))
            found = [self._forward(module, piece) for piece in pieces]
            times = ours.take_times() if ours else []
        layers_timed = len(times) // len(found)
        sums = (sum(times[n::layers_timed]) for n in range(layers_timed))
        own = None
        if self.variant and ours and ours.gpu:
            own = OwnKernels(ours.gpu, batch, self.variant, other_layers=False)
        return Inference(np.concatenate(found), tuple(sums), own_kernels=own)

    @contextmanager
    def _ours(
        self, network: Network, batches: Sequence[int], size: int
    ) -> Iterator[OperatorLibrary | None]:
        """Set where the operator computes; yield None if the network has none."""
        if network.model.own:
            ours = operator()
            ours.take_times()
            ours.use_cpu(cores.COUNT)
            layers = network.model.layers
            shapes = [s for n in batches for s in graph.convolutions(layers, n, size)]
            try:
                if self.variant:
                    gpu = ours.open_gpu(self._libcuda)
                    plans = operator_library.plans(self.variant, shapes, gpu)
                    ours.use_gpu(plans)
                yield ours
            finally:
                ours.use_cpu(cores.COUNT)
        elif self.variant:
            raise UsageError(
                f"model {network.model.name} has MXNet's own convolutions; variant "
                f"{self.variant.name} cannot replace them"
            )
        else:
            yield None

    def _bound(self, network: Network, shape: tuple[int, ...]) -> Module:
        """Return a module of the network, with its weights, for pieces of a shape."""
        text = network.symbol or symbol.dumps(network.model.layers)
        with quiet():
            net = self._mxnet.symbol.load_json(text)
            known = {DATA, *network.weights}
            labels = [name for name in net.list_arguments() if name not in known]
            module = self._mxnet.mod.Module(
                net, [DATA], labels, context=self._mxnet.cpu()
            )
            module.bind(*_described(labels, shape), for_training=False)
        module.set_params({n: self._put(a) for n, a in network.weights.items()}, {})
        return module

    def _forward(self, module: Module, piece: np.ndarray) -> np.ndarray:
        """Return the probabilities of at most as many images as are bound."""
        x = self._put(piece[:, np.newaxis])
        if x.shape != module.data_shapes[0].shape:
            with quiet():
                module.reshape(*_described(module.label_names, x.shape))
        # Inference ignores labels, but the course's networks have them as an input.
        labels = [self._mxnet.nd.zeros(len(piece)) for _ in module.label_names]
        module.forward(self._mxnet.io.DataBatch([x], labels), is_train=False)
        (probabilities,) = module.get_outputs()
        found: np.ndarray = probabilities.asnumpy()
        return found

    def _put(self, array: np.ndarray) -> NdArray:
        return self._mxnet.nd.array(array, self._mxnet.cpu(), np.float32)


def _described(
    labels: Sequence[str], shape: tuple[int, ...]
) -> tuple[Descriptions, Descriptions | None]:
    """Return the shapes of images and labels in the form that a module takes."""
    return [(DATA, shape)], [(name, shape[:1]) for name in labels] or None


@cache
def operator() -> OperatorLibrary:
    """Build the operator and register it in MXNet, once for a process."""
    # Build before MXNet is loaded: its threads would delay every fork.
    path = operator_library.build(mxnet_package.folder())
    register(path)
    return OperatorLibrary(path)


def register(path: Path) -> None:
    """Load a library of operators into MXNet; raise MissingError."""
    base = loaded().base
    try:
        # MXNet's own call also generates the Python function of each operator again,
        # which is slow and not needed.
        base.check_call(base._LIB.MXLoadLib(os.fsencode(path), 0))
    except base.MXNetError as error:
        raise MissingError(f"MXNet does not load {path}: {_last_line(error)}") from None


@contextmanager
def _faults(mxnet: ModuleType, ours: OperatorLibrary | None) -> Iterator[None]:
    """Convert MXNet's errors; the operator's own message takes precedence."""
    try:
        yield
    except mxnet.base.MXNetError as error:
        why = ours and ours.error()
        raise why or ProjectError(f"MXNet: {_last_line(error)}") from None


def _last_line(error: Exception) -> str:
    *_, last = str(error).strip().splitlines()
    return last.removeprefix("MXNetError: ")
