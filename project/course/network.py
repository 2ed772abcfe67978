"""A model with its weights, and the result of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from course import graph
from course.editions import CLASSES, Edition, Model
from course.errors import ProjectError
from course.graph import Convolution
from course.variants import Gpu, Variant


@dataclass(frozen=True)
class Network:
    """A model and its weights, by the layers' names of them."""

    edition: Edition
    model: Model
    weights: Mapping[str, np.ndarray]
    path: Path | None = None  # the file of the weights


@dataclass(frozen=True)
class OwnKernels:
    """Which kernels of our own computed a network on a GPU."""

    gpu: Gpu
    batch: int  # the most images at a time
    variant: Variant | None = None  # of the convolutions; None for a library's


@dataclass(frozen=True)
class Inference:
    """The result of a forward pass, and the time of each convolution."""

    probabilities: np.ndarray  # images x classes
    op_times_s: tuple[float, ...]
    note: str | None = None  # the backend's message for the user
    own_kernels: OwnKernels | None = None  # if any

    @property
    def labels(self) -> np.ndarray:
        """Return the most probable class of every image."""
        classes: np.ndarray = self.probabilities.argmax(axis=1)
        return classes.astype(np.uint8)


def shapes(edition: Edition, model: Model) -> dict[str, graph.Shape]:
    """Return the shapes of a model's arrays by name, in the order of its layers."""
    return graph.array_shapes(model.layers, edition.size)


def assemble(
    edition: Edition,
    model: Model,
    arrays: Mapping[str, np.ndarray],
    *,
    path: Path | None = None,
) -> Network:
    """Make a network of a model and its arrays; raise ProjectError if any is wrong.

    The arrays may have the names of the model that it shares its weights with.
    """
    *_, last = graph.steps(model.layers, edition.size)
    if last.y != (CLASSES,):
        raise ProjectError(
            f"model {model.name}: the output has shape {last.y}, not {CLASSES} classes"
        )
    if not any(isinstance(layer, Convolution) for layer in model.layers):
        raise ProjectError(f"model {model.name}: it has no convolution")
    expected = shapes(edition, model)
    names = list(expected)
    if model.weights and not arrays.keys() >= expected.keys():
        names = list(shapes(edition, edition.weights_of(model)))
    wrong = [
        f"{name} is {arrays[name].shape if name in arrays else 'missing'}, not {shape}"
        for name, shape in zip(names, expected.values(), strict=True)
        if name not in arrays or arrays[name].shape != shape
    ]
    if wrong:
        problems = "; ".join(wrong)
        source = f"{path}: " if path else ""
        raise ProjectError(
            f"{source}weights of {edition.name} {model.name}: {problems}"
        )
    broken = [name for name in names if not np.isfinite(arrays[name]).all()]
    if broken:
        raise ProjectError(
            f"weights of {edition.name} {model.name}: {', '.join(broken)} contain "
            "infinities or NaN; train them again"
        )
    weights = {mine: arrays[name] for mine, name in zip(expected, names, strict=True)}
    return Network(edition, model, weights, path)
