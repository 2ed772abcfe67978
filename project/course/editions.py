"""The editions of the course: their image sizes and networks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from course.errors import UsageError
from course.graph import Convolution, Layers, lenet

CLASSES = 10
VARIABLE = "RAI_EDITION"


@dataclass(frozen=True, slots=True)
class Model:
    """A network, and the accuracies that the course published for it."""

    name: str
    layers: Layers
    published: Mapping[int, float] = field(default_factory=dict)  # images: accuracy
    weights: str = ""  # the model whose stored weights it uses; "" for its own
    no_better_than: float | None = None  # training stops at this accuracy

    @property
    def own(self) -> bool:
        """Return whether it uses our own convolution, not the library's."""
        return any(isinstance(la, Convolution) and la.own for la in self.layers)


@dataclass(frozen=True, slots=True)
class Edition:
    """One term of the course."""

    name: str
    size: int  # images are size x size
    models: tuple[Model, ...]
    names_model: bool = False  # its scripts take the model before the data size
    inference_first: bool = False  # its scripts print `New Inference` first

    def model(self, name: str) -> Model:
        """Return a model by its name; raise UsageError if there is none."""
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.models)
        raise UsageError(f"edition {self.name} has no model `{name}`; it has {known}")

    def with_convolutions(self, *, own: bool) -> list[Model]:
        """List the models with our own convolution, or those with the library's."""
        return [model for model in self.models if model.own == own]

    def weights_of(self, model: Model) -> Model:
        """Return the model whose stored weights a model uses, usually itself."""
        return self.model(model.weights) if model.weights else model


def _library(*maps_and_kernel: tuple[int, int], hidden: int) -> Layers:
    return lenet(*maps_and_kernel, hidden=hidden, classes=CLASSES, own=False)


def _own(*maps_and_kernel: tuple[int, int], hidden: int) -> Layers:
    return lenet(*maps_and_kernel, hidden=hidden, classes=CLASSES, own=True)


# A convolution is given as (maps, K). Published accuracies are those of the course's
# weights on the first N test images, N: accuracy.
EDITIONS = {
    edition.name: edition
    for edition in (
        Edition(
            "2017fa",
            28,
            (
                Model(
                    "baseline",
                    _library((50, 5), hidden=500),
                    {10_000: 0.8673},
                    weights="ece408-high",
                ),
                Model("ece408-high", _own((50, 5), hidden=500), {10_000: 0.8562}),
                Model(
                    "ece408-low",
                    _own((50, 5), hidden=500),
                    {10_000: 0.629},
                    no_better_than=0.629,
                ),
            ),
            names_model=True,
            inference_first=True,
        ),
        Edition(
            "2018sp",
            64,
            (
                Model(
                    "baseline",
                    _library((6, 5), (16, 5), hidden=140),
                    {10_000: 0.8444},
                    weights="ece408",
                ),
                Model("ece408", _own((6, 5), (16, 5), hidden=140)),
            ),
        ),
        Edition(
            "2018fa",
            72,
            (
                Model(
                    "baseline",
                    _library((12, 7), (24, 7), hidden=160),
                    weights="ece408",
                ),
                Model(
                    "ece408",
                    _own((12, 7), (24, 7), hidden=160),
                    {100: 0.85, 1000: 0.827, 10_000: 0.8171},
                ),
            ),
        ),
        Edition(
            "2019sp",
            48,
            (
                Model(
                    "baseline", _library((12, 7), (24, 7), hidden=160), {10_000: 0.8236}
                ),
                Model(
                    "ece408",
                    _own((6, 5), (16, 5), hidden=140),
                    {100: 0.84, 1000: 0.852, 10_000: 0.8397},
                ),
            ),
        ),
        Edition(
            "2019fa",
            70,
            (
                Model(
                    "baseline",
                    _library((12, 5), (24, 5), hidden=160),
                    {10_000: 0.8154},
                    weights="ece408",
                ),
                Model(
                    "ece408",
                    _own((12, 5), (24, 5), hidden=160),
                    {100: 0.76, 1000: 0.767, 10_000: 0.7653},
                ),
            ),
        ),
    )
}

DEFAULT = EDITIONS["2019fa"]


def edition(name: str | None = None) -> Edition:
    """Return an edition by name, by default that of RAI_EDITION, else 2019fa."""
    name = name or os.environ.get(VARIABLE) or DEFAULT.name
    if name not in EDITIONS:
        known = ", ".join(EDITIONS)
        raise UsageError(f"unknown edition `{name}`; choose one of {known}")
    return EDITIONS[name]
