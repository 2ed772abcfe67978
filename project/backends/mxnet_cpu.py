"""Run the network in MXNet on the CPU, as the course did.

Our own convolution is MXNet's operator ``New``, in C++.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_double, c_int
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from course import cores

# isort: split
# cores comes before numpy.
import numpy as np
from course import graph, symbol
from course.errors import MissingError, ProjectError
from course.network import Inference, Network
from host import mxnet_package, native
from host.mxnet_package import loaded, quiet

Module = Any  # mxnet.mod.Module; MXNet has no types
NdArray = Any  # mxnet.nd.NDArray
Descriptions = list[tuple[str, tuple[int, ...]]]

FLOAT = 4  # bytes
DATA = "data"  # the images' name in the course's symbols
PIECE_BYTES = 32 << 20  # of the largest layer, about the size of the caches
CPP = Path(__file__).resolve().parents[1] / "cpp"


class Operator:
    """The loaded library of the operator ``New``; a process has one."""

    def __init__(self, path: Path) -> None:
        self._c = c = ctypes.CDLL(str(path))
        c.rai_operator_use.argtypes = [c_int]
        c.rai_operator_use.restype = None
        c.rai_operator_problem.argtypes = []
        c.rai_operator_problem.restype = c_char_p
        c.rai_operator_calls.argtypes = []
        c.rai_operator_take_times.argtypes = [POINTER(c_double), c_int]
        c.rai_operator_take_times.restype = None
        c.rai_operator_use(cores.COUNT)

    def take_times(self) -> list[float]:
        """Return and clear the seconds that each call took."""
        seconds = (c_double * self._c.rai_operator_calls())()
        self._c.rai_operator_take_times(seconds, len(seconds))
        return list(seconds)

    def problem(self) -> str:
        """Return and clear the last error message; "" if there is none."""
        message: bytes = self._c.rai_operator_problem()
        return message.decode(errors="replace")


class MxnetCpu:
    """MXNet's module, with our operator ``New`` where the network has it."""

    name = "mxnet"

    def __init__(self, *, own: bool = False, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        if own:
            operator()
        self._mxnet = loaded()

    def infer(self, network: Network, images: np.ndarray) -> Inference:
        """Classify images of bytes, N x size x size, in pieces."""
        count, size, _ = images.shape
        shapes = graph.convolutions(network.model.layers, 1, size)
        largest = max(s.floats_out for s in shapes)
        batch = max(1, min(count, self._piece_bytes // (FLOAT * largest)))
        ours = operator() if network.model.own else None
        with _faults(self._mxnet, ours):
            module = self._bound(network, (batch, 1, size, size))
            pieces = (images[at : at + batch] for at in range(0, count, batch))
            found = [self._forward(module, piece) for piece in pieces]
        times = ours.take_times() if ours else []
        layers_timed = len(times) // len(found)
        sums = (sum(times[n::layers_timed]) for n in range(layers_timed))
        return Inference(np.concatenate(found), tuple(sums))

    def _bound(self, network: Network, shape: tuple[int, ...]) -> Module:
        """Return a module of the network, with its weights, for pieces of a shape."""
        with quiet():
            text = symbol.dumps(network.model.layers)
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
def operator() -> Operator:
    """Build the operator and register it in MXNet, once for a process."""
    # Build before MXNet is loaded: its threads would delay every fork.
    mxnet = mxnet_package.folder()
    path = native.build(
        native.Library(
            "New",
            tuple(CPP / f"{name}.cpp" for name in ("forward", "convolution")),
            includes=(mxnet / "include",),
            unoptimised=(mxnet / "src" / "lib_api.cc", CPP / "operator.cpp"),
        )
    )
    register(path)
    return Operator(path)


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
def _faults(mxnet: ModuleType, ours: Operator | None) -> Iterator[None]:
    """Convert MXNet's errors; the operator's own message takes precedence."""
    try:
        yield
    except mxnet.base.MXNetError as error:
        why = ours and ours.problem()
        raise ProjectError(why or f"MXNet: {_last_line(error)}") from None


def _last_line(error: Exception) -> str:
    *_, last = str(error).strip().splitlines()
    return last.removeprefix("MXNetError: ")
