"""The editions of the course: their image sizes and networks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

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


_ONE = partial(lenet, (50, 5), hidden=500, classes=CLASSES)
_SMALL = partial(lenet, (6, 5), (16, 5), hidden=140, classes=CLASSES)
_LARGE = partial(lenet, (12, 5), (24, 5), hidden=160, classes=CLASSES)
_WIDE = partial(lenet, (12, 7), (24, 7), hidden=160, classes=CLASSES)
"""The editions' networks, whose convolutions are given as (maps, K)."""

# Published accuracies are those of the course's weights on the first N test images,
# N: accuracy.
_2017FA = (
    Model("baseline", _ONE(own=False), {10_000: 0.8673}, "ece408-high"),
    Model("ece408-high", _ONE(own=True), {10_000: 0.8562}),
    Model("ece408-low", _ONE(own=True), {10_000: 0.629}, no_better_than=0.629),
)
_2018SP = (
    Model("baseline", _SMALL(own=False), {10_000: 0.8444}, "ece408"),
    Model("ece408", _SMALL(own=True)),
)
_2018FA = (
    Model("baseline", _WIDE(own=False), weights="ece408"),
    Model("ece408", _WIDE(own=True), {100: 0.85, 1000: 0.827, 10_000: 0.8171}),
)
_2019SP = (
    Model("baseline", _WIDE(own=False), {10_000: 0.8236}),
    Model("ece408", _SMALL(own=True), {100: 0.84, 1000: 0.852, 10_000: 0.8397}),
)
_2019FA = (
    Model("baseline", _LARGE(own=False), {10_000: 0.8154}, "ece408"),
    Model("ece408", _LARGE(own=True), {100: 0.76, 1000: 0.767, 10_000: 0.7653}),
)
EDITIONS = {
    edition.name: edition
    for edition in (
        Edition("2017fa", 28, _2017FA, names_model=True, inference_first=True),
        Edition("2018sp", 64, _2018SP),
        Edition("2018fa", 72, _2018FA),
        Edition("2019sp", 48, _2019SP),
        Edition("2019fa", 70, _2019FA),
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
