"""The editions of the course: the size of their images, and their networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from errors import UsageError

CLASSES = 10


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution without padding or bias, at every position of the image."""

    channels: int
    maps: int
    kernel: int


@dataclass(frozen=True, slots=True)
class Model:
    """A small LeNet: tanh and 2x2 max pooling follow the first convolution only."""

    name: str
    convolutions: tuple[Convolution, ...]
    hidden: int
    published: Mapping[int, float] = field(default_factory=dict)  # images: accuracy
    weights: str = ""  # the model whose stored weights it runs with; "" is its own

    @property
    def own(self) -> bool:
        """Whether its convolutions are ours to write, not the library's."""
        return self.name.startswith("ece408")

    def flat(self, size: int) -> int:
        """Count the numbers that reach the first dense layer, for square images."""
        for n, layer in enumerate(self.convolutions):
            size = size - layer.kernel + 1
            size = size // 2 if n == 0 else size
        return self.convolutions[-1].maps * size * size


@dataclass(frozen=True, slots=True)
class Edition:
    """One term of the course."""

    name: str
    size: int  # images are size x size
    models: tuple[Model, ...]

    def model(self, name: str) -> Model:
        """Find a model by its name."""
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.models)
        raise UsageError(f"edition {self.name} has no model `{name}`; it has {known}")

    def weights_of(self, name: str) -> Model:
        """Find the model whose stored weights a model runs with: mostly itself."""
        return self.model(self.model(name).weights or name)


_2017FA = (Convolution(1, 50, 5),)
_2018SP = (Convolution(1, 6, 5), Convolution(6, 16, 5))
_2018FA = (Convolution(1, 12, 7), Convolution(12, 24, 7))
_2019FA = (Convolution(1, 12, 5), Convolution(12, 24, 5))

EDITIONS = {
    edition.name: edition
    for edition in (
        Edition(
            "2017fa",
            28,
            (
                Model("baseline", _2017FA, 500, {10_000: 0.8673}),
                Model("ece408-high", _2017FA, 500, {10_000: 0.8562}),
                Model("ece408-low", _2017FA, 500, {10_000: 0.629}),
            ),
        ),
        Edition(
            "2018sp",
            64,
            (
                Model("baseline", _2018SP, 140, {10_000: 0.8444}),
                Model("ece408", _2018SP, 140),
            ),
        ),
        Edition(
            "2018fa",
            72,
            (
                Model("baseline", _2018FA, 160),
                Model("ece408", _2018FA, 160, {100: 0.85, 1000: 0.827, 10_000: 0.8171}),
            ),
        ),
        Edition(
            "2019sp",
            48,
            (
                Model("baseline", _2018FA, 160, {10_000: 0.8236}),
                Model("ece408", _2018SP, 140, {100: 0.84, 1000: 0.852, 10_000: 0.8397}),
            ),
        ),
        Edition(
            "2019fa",
            70,
            (
                Model("baseline", _2019FA, 160, {10_000: 0.8154}, weights="ece408"),
                Model("ece408", _2019FA, 160, {100: 0.76, 1000: 0.767, 10_000: 0.7653}),
            ),
        ),
    )
}

DEFAULT = EDITIONS["2019fa"]


def edition(name: str) -> Edition:
    """Find an edition by its name."""
    if name not in EDITIONS:
        known = ", ".join(EDITIONS)
        raise UsageError(f"there is no edition `{name}`; there are {known}")
    return EDITIONS[name]
