"""A model with its weights, and its forward pass on a backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import params
from backends import Array, Backend
from editions import CLASSES, Convolution, Edition, Model
from errors import ProjectError
from shapes import ConvShape

MODELS = Path(__file__).resolve().parent / "models"


@dataclass(frozen=True)
class Network:
    """The weights of a model, in the order of its layers."""

    edition: Edition
    model: Model
    convolutions: tuple[np.ndarray, ...]
    dense: tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class Inference:
    """What a forward pass found, and how long each convolution took."""

    probabilities: np.ndarray
    op_times_s: tuple[float, ...]
    note: str | None = None  # what the backend has to say of it

    @property
    def labels(self) -> np.ndarray:
        """The likeliest class of every image."""
        likeliest: np.ndarray = self.probabilities.argmax(axis=1)
        return likeliest.astype(np.uint8)


def stored(edition: Edition, model: Model) -> Path:
    """Name the file of the model's weights."""
    return MODELS / f"{edition.name}-{model.weights or model.name}.params"


def load(edition: Edition, name: str) -> Network:
    """Read a model's stored weights."""
    model = edition.model(name)
    path = stored(edition, model)
    if not path.is_file():
        raise ProjectError(
            f"{path}: no such weights; train them with "
            f"`python train.py --edition {edition.name} --model {name}`"
        )
    expected = shapes(edition, edition.weights_of(name))
    return assemble(edition, model, params.read(path), expected)


def shapes(edition: Edition, model: Model) -> dict[str, tuple[int, ...]]:
    """Name the weights as MXNet does, with their shapes, in the order of the layers."""
    kind = "new" if model.own else "convolution"
    named: dict[str, tuple[int, ...]] = {
        f"{kind}{n}_weight": (layer.maps, layer.channels, layer.kernel, layer.kernel)
        for n, layer in enumerate(model.convolutions)
    }
    inputs = model.flat(edition.size)
    for n, outputs in enumerate((model.hidden, CLASSES)):
        named[f"fullyconnected{n}_weight"] = (outputs, inputs)
        named[f"fullyconnected{n}_bias"] = (outputs,)
        inputs = outputs
    return named


def assemble(
    edition: Edition,
    model: Model,
    weights: Mapping[str, np.ndarray],
    expected: Mapping[str, tuple[int, ...]] | None = None,
) -> Network:
    """Put weights into their layers, when all are there and have the right shape."""
    expected = expected or shapes(edition, model)
    found = {name: array.shape for name, array in weights.items()}
    wrong = [
        f"{name} is {found.get(name, 'missing')}, not {shape}"
        for name, shape in expected.items()
        if found.get(name) != shape
    ]
    if wrong:
        problems = "; ".join(wrong)
        raise ProjectError(f"weights of {edition.name} {model.name}: {problems}")
    ordered = [weights[name] for name in expected]
    *convolutions, weight0, bias0, weight1, bias1 = ordered
    dense = ((weight0, bias0), (weight1, bias1))
    return Network(edition, model, tuple(convolutions), dense)


def infer(network: Network, images: np.ndarray, backend: Backend[Array]) -> Inference:
    """Classify images of bytes, a piece at a time, so that memory stays bounded."""
    count, size, _ = images.shape
    layers = network.model.convolutions
    note = backend.prepare(convolution_shapes(layers, count, size))
    convolutions = [backend.put(weights) for weights in network.convolutions]
    first, last = [(backend.put(w), backend.put(b)) for w, b in network.dense]
    op_times_s = [0.0] * len(convolutions)
    pieces = []
    for start in range(0, len(images), backend.batch):
        x = backend.put(images[start : start + backend.batch, np.newaxis])
        for n, weights in enumerate(convolutions):
            x, seconds = _convolve(x, weights, backend)
            op_times_s[n] += seconds
            if n == 0:
                # tanh never falls, so it may follow the pooling and do a quarter.
                x = backend.tanh(backend.pooling(x))
        hidden = backend.tanh(backend.dense(x, *first))
        pieces.append(backend.get(backend.softmax(backend.dense(hidden, *last))))
    return Inference(np.concatenate(pieces), tuple(op_times_s), note)


def convolution_shapes(
    convolutions: Iterable[Convolution], images: int, size: int
) -> list[ConvShape]:
    """Give the sizes of a network's convolutions, for square images."""
    found = []
    for n, layer in enumerate(convolutions):
        shape = ConvShape(images, layer.maps, layer.channels, size, size, layer.kernel)
        found.append(shape)
        size = shape.H_out // 2 if n == 0 else shape.H_out
    return found


def _convolve(x: Array, weights: Array, backend: Backend[Array]) -> tuple[Array, float]:
    """Run a convolution and time it as the course does: from zeros to the last sum."""
    images, _, height, width = x.shape
    maps, _, kernel, _ = weights.shape
    y = backend.zeros((images, maps, height - kernel + 1, width - kernel + 1))
    backend.wait()
    start = perf_counter()
    backend.convolution(y, x, weights)
    backend.wait()
    return y, perf_counter() - start
