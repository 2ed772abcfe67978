"""A network of the course on the GPU: the project's forward(), and our other layers."""

from __future__ import annotations

import ctypes
import json
from contextlib import ExitStack
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Shape = tuple[int, ...]
IN_PLACE = "Activation", "SoftmaxOutput"


class Gpu:
    """A chain of layers for images of one shape, the whole batch at once.

    Raises MXNet's error if the library has no layers for the GPU, or one fails.
    """

    def __init__(
        self, mxnet: ModuleType, library: Path, symbol: Any, weights: Any, images: Shape
    ) -> None:
        self._error: type[Exception] = mxnet.MXNetError
        try:
            self._c = ctypes.CDLL(str(library))
            _ = self._c.course_make
        except (OSError, AttributeError):
            raise self._error(
                f"mx.gpu(): {library} is not made for a GPU; run `make -C /mxnet` where"
                " there is one"
            ) from None
        self._nodes = json.loads(symbol.tojson())["nodes"]
        internals = symbol.get_internals()
        _, shapes, _ = internals.infer_shape(data=images)
        self._shapes = dict(zip(internals.list_outputs(), shapes, strict=True))
        self._weights = {name: array.asnumpy() for name, array in weights.items()}

    def forward(self, images: np.ndarray) -> np.ndarray:
        """Return the probabilities of a batch."""
        with ExitStack() as held:

            def make(shape: Shape, values: np.ndarray | None = None) -> c_void_p:
                array, floats = c_void_p(), None
                if values is not None:
                    floats = np.ascontiguousarray(values, np.float32).ctypes
                self._call("make", ctypes.byref(array), floats, c_size_t(prod(shape)))
                held.callback(self._c.course_free, array)
                return array

            weights = {name: make(w.shape, w) for name, w in self._weights.items()}
            x, shape = make(images.shape, images), images.shape
            for node in self._nodes:
                op = node["op"]
                if op == "null":
                    continue
                after = self._shapes[f"{node['name']}_output"]
                if op != "Flatten":
                    y = x if op in IN_PLACE else make(after)
                    names = [self._nodes[n]["name"] for n, *_ in node["inputs"][1:]]
                    arrays = (*map(weights.get, names), None, None)[:2]
                    sizes = map(_four, (after, shape))
                    self._call("layer", op.encode(), y, x, *arrays, *sizes)
                    x = y
                shape = after
            found = np.empty(shape, np.float32)
            self._call("get", found.ctypes, x, c_size_t(found.size))
            return found

    def _call(self, name: str, *arguments: object) -> None:
        function = getattr(self._c, f"course_{name}")
        function.restype = c_char_p
        if why := function(*arguments):
            raise self._error(why.decode(errors="replace"))


def _four(shape: Shape) -> ctypes.Array[c_int]:
    return (c_int * 4)(*shape, *(1,) * (4 - len(shape)))
