"""A network of the course on the GPU: the project's forward(), and our other layers."""

from __future__ import annotations

import ctypes
import json
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
        self,
        mxnet: ModuleType,
        library: Path,
        symbol: Any,
        weights: Any,
        images: Shape,
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
        self._shapes: dict[str, Shape] = dict(
            zip(internals.list_outputs(), shapes, strict=True)
        )
        self._weights = {name: array.asnumpy() for name, array in weights.items()}

    def forward(self, images: np.ndarray) -> np.ndarray:
        """Return the probabilities of a batch."""
        held: list[c_void_p] = []
        try:
            return self._run(images, held)
        finally:
            for array in held:
                self._c.course_free(array)

    def _run(self, images: np.ndarray, held: list[c_void_p]) -> np.ndarray:
        def make(shape: Shape, values: np.ndarray | None = None) -> c_void_p:
            array, floats = c_void_p(), None
            if values is not None:
                values = np.ascontiguousarray(values, np.float32)
                floats = c_void_p(values.ctypes.data)
            self._call("make", ctypes.byref(array), floats, c_size_t(prod(shape)))
            held.append(array)
            return array

        weights = {name: make(w.shape, w) for name, w in self._weights.items()}
        x, shape = make(images.shape, images), images.shape
        for node in self._nodes:
            if node["op"] == "null":
                continue
            after = self._shapes[f"{node['name']}_output"]
            if node["op"] != "Flatten":
                y = x if node["op"] in IN_PLACE else make(after)
                names = [self._nodes[each[0]]["name"] for each in node["inputs"][1:]]
                arrays = [weights.get(name) for name in names] + [None, None]
                sizes = map(_four, (after, shape))
                self._call("layer", node["op"].encode(), y, x, *arrays[:2], *sizes)
                x = y
            shape = after
        found = np.empty(shape, np.float32)
        self._call("get", c_void_p(found.ctypes.data), x, c_size_t(found.size))
        return found

    def _call(self, name: str, *arguments: object) -> None:
        function = getattr(self._c, f"course_{name}")
        function.restype = c_char_p
        if why := function(*arguments):
            raise self._error(why.decode(errors="replace"))


def _four(shape: Shape) -> ctypes.Array[c_int]:
    return (c_int * 4)(*shape, *(1,) * (4 - len(shape)))
