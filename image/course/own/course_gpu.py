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


class Gpu:
    """A chain of layers for images of one shape, the whole batch at once.

    Raises MXNet's error if the library has no layers for the GPU, or one fails.
    """

    def __init__(
        self,
        mxnet: ModuleType,
        library: Path,
        symbol: Any,  # noqa: ANN401
        weights: Any,  # noqa: ANN401
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
        weights = {
            name: self._put(array, held) for name, array in self._weights.items()
        }
        x, shape = self._put(images, held), images.shape
        for node in self._nodes:
            if node["op"] == "null":
                continue
            inputs = [self._nodes[each[0]]["name"] for each in node["inputs"][1:]]
            arrays = [weights[name] for name in inputs if name in weights]
            after = self._shapes[f"{node['name']}_output"]
            match node["op"]:
                case "New" | "Convolution":
                    kind = "own_convolution" if node["op"] == "New" else "convolution"
                    kernel = self._shapes[inputs[0]][-1]
                    sizes = (c_int * 6)(shape[0], after[1], *shape[1:], kernel)
                    y = self._make(after, held)
                    self._call(kind, y, x, *arrays, sizes)
                    x = y
                case "Pooling":
                    y = self._make(after, held)
                    self._call("pooling", y, x, *map(c_int, shape))
                    x = y
                case "Activation":
                    self._call("tanh", x, c_int(shape[0]), c_int(prod(shape[1:])))
                case "FullyConnected":
                    y = self._make(after, held)
                    sizes = shape[0], prod(shape[1:]), after[1]
                    self._call("dense", y, x, *arrays, *map(c_int, sizes))
                    x = y
                case "SoftmaxOutput":
                    self._call("softmax", x, *map(c_int, shape))
                case "Flatten":
                    pass
                case other:
                    raise self._error(f"mx.gpu(): this image has no layer {other}")
            shape = after
        found = np.empty(shape, np.float32)
        self._call("get", c_void_p(found.ctypes.data), x, c_size_t(found.size))
        return found

    def _make(self, shape: Shape, held: list[c_void_p]) -> c_void_p:
        array = c_void_p()
        self._call("make", ctypes.byref(array), c_size_t(prod(shape)))
        held.append(array)
        return array

    def _put(self, values: np.ndarray, held: list[c_void_p]) -> c_void_p:
        floats = np.ascontiguousarray(values, np.float32)
        array = self._make(floats.shape, held)
        self._call("put", array, c_void_p(floats.ctypes.data), c_size_t(floats.size))
        return array

    def _call(self, name: str, *arguments: object) -> None:
        function = getattr(self._c, f"course_{name}")
        function.restype = c_char_p
        if why := function(*arguments):
            raise self._error(why.decode(errors="replace"))
