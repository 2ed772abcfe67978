"""A model with its weights, and what a forward pass of it finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import graph
import numpy as np
from editions import CLASSES, Edition, Model
from errors import ProjectError
from graph import Convolution


@dataclass(frozen=True)
class Network:
    """Weights by the names that the model's layers give them."""

    edition: Edition
    model: Model
    weights: Mapping[str, np.ndarray]
    symbol: str | None = None  # the symbol file that came with them, as it is
    path: Path | None = None  # their own file


@dataclass(frozen=True)
class Inference:
    """What a forward pass found, and how long each convolution took."""

    probabilities: np.ndarray  # images x classes
    op_times_s: tuple[float, ...]
    note: str | None = None  # what the backend has to say of it

    @property
    def labels(self) -> np.ndarray:
        """The likeliest class of every image."""
        likeliest: np.ndarray = self.probabilities.argmax(axis=1)
        return likeliest.astype(np.uint8)


def shapes(edition: Edition, model: Model) -> dict[str, graph.Shape]:
    """Name the arrays of a model with their shapes, in the order of its layers."""
    return graph.array_shapes(model.layers, edition.size)


def assemble(
    edition: Edition,
    model: Model,
    arrays: Mapping[str, np.ndarray],
    *,
    symbol: str | None = None,
    path: Path | None = None,
) -> Network:
    """Give a model arrays, when all that it needs are there and have the right shape.

    They may be named as in the model that it shares its weights with.
    """
    _check(edition, model)
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
            f"weights of {edition.name} {model.name}: infinities or NaN in "
            f"{', '.join(broken)}; train them again"
        )
    weights = {mine: arrays[name] for mine, name in zip(expected, names, strict=True)}
    return Network(edition, model, weights, symbol, path)


def _check(edition: Edition, model: Model) -> None:
    """Refuse layers that are no classifier of the course's images."""
    *_, last = graph.steps(model.layers, edition.size)
    if last.y != (CLASSES,):
        raise ProjectError(
            f"model {model.name}: the last layer gives {last.y}, not {CLASSES} classes"
        )
    if not any(isinstance(layer, Convolution) for layer in model.layers):
        raise ProjectError(f"model {model.name}: there is no convolution in it")
