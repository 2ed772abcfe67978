"""A network of the course on the GPU: the project's forward(), and our other layers."""

from __future__ import annotations

import ctypes
import json
from ctypes import c_char_p, c_int, c_void_p
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Shape = tuple[int, ...]


class Layer(ctypes.Structure):
    """CourseLayer of course.h."""

    _fields_ = (
        *(("name", c_char_p), ("weights", c_void_p), ("bias", c_void_p)),
        *(("floats", c_int), ("shape", c_int * 4)),
    )


class Gpu:
    """A chain of layers for images of one shape, the whole batch at once.

    Raises MXNet's error if the library has no layers for the GPU, or one fails.
    """

    def __init__(
        self, mxnet: ModuleType, library: Path, symbol: Any, weights: Any, images: Shape
    ) -> None:
        self._error: type[Exception] = mxnet.MXNetError
        try:
            self._compute = ctypes.CDLL(str(library)).course_forward
        except OSError:
            raise self._error(
                f"operator New is not made ({library}): see what `make` printed"
            ) from None
        except AttributeError:
            raise self._error(
                "mx.gpu(): no CUDA-capable device is detected, or none was when"
                f" {library} was made; run `make -C /mxnet` where there is one"
            ) from None
        self._compute.restype = c_char_p
        internals = symbol.get_internals()
        _, every, _ = internals.infer_shape(data=images)
        shapes = dict(zip(internals.list_outputs(), every, strict=True))
        self._found: Shape = every[-1]
        self._weights = {  # the layers point to them
            name: np.ascontiguousarray(array.asnumpy(), np.float32)
            for name, array in weights.items()
        }
        nodes = json.loads(symbol.tojson())["nodes"]
        layers = []
        for node in nodes:
            if node["op"] not in ("null", "Flatten"):
                names = [nodes[n]["name"] for n, *_ in node["inputs"][1:]]
                own = [self._weights[n] for n in names if n in self._weights]
                pointers = (*(array.ctypes.data for array in own), None, None)[:2]
                floats = own[0].size if own else 0
                shape = _four(shapes[f"{node['name']}_output"])
                layers.append(Layer(node["op"].encode(), *pointers, floats, shape))
        self._layers = (Layer * len(layers))(*layers)

    def forward(self, images: np.ndarray) -> np.ndarray:
        """Return the probabilities of a batch."""
        images = np.ascontiguousarray(images, np.float32)
        found = np.empty(self._found, np.float32)
        arrays = found.ctypes, images.ctypes, _four(images.shape)
        if why := self._compute(self._layers, len(self._layers), *arrays):
            raise self._error(why.decode(errors="replace"))
        return found


def _four(shape: Shape) -> ctypes.Array[c_int]:
    return (c_int * 4)(*shape, *(1,) * (4 - len(shape)))
