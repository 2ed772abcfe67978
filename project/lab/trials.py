"""Choose what the benchmark measures: variants, layers, numbers of images."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from course import editions, graph
from course.editions import Edition
from course.errors import UsageError
from course.shapes import ConvShape
from course.variants import FP32, LADDER_TARGETS, Variant
from lab.measurement import FMA, HALF, SPLIT
from plans import kernels
from plans.kernels import VARIANTS

MAIN = "2019fa"
IMAGES = 10_000
FEW = 100
SIZES = (FEW, 1000, 40_000)  # measured besides IMAGES
LAYERS = ("conv1", "conv2")


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of an edition; its shape is that of one image."""

    edition: str
    model: str
    name: str
    shape: ConvShape


@dataclass(frozen=True, slots=True)
class Trial:
    """Variants to time on the same images and weights."""

    layer: Layer
    images: int
    variants: tuple[Variant, ...]
    wide: bool = False  # numbers of so wide a range that fast kernels leave every image

    @property
    def shape(self) -> ConvShape:
        """Return the shape with the number of images."""
        return replace(self.layer.shape, B=self.images)

    def thorough(self, variant: Variant) -> bool:
        """Return whether a variant is also timed back to back: the fastest ones are."""
        usual = (self.layer.edition, self.images) == (MAIN, IMAGES)
        fastest = variant.name in kernels.BEST.values()
        return usual and fastest and not self.wide


def layers(edition: Edition) -> Iterator[Layer]:
    """Yield an edition's convolutions, our own first, without repeated shapes."""
    first: dict[tuple[ConvShape, ...], str] = {}
    for model in sorted(edition.models, key=lambda model: not model.own):
        shapes = tuple(graph.convolutions(model.layers, 1, edition.size))
        first.setdefault(shapes, model.name)
    for shapes, model_name in first.items():
        for name, shape in zip(LAYERS, shapes, strict=False):
            yield Layer(edition.name, model_name, name, shape)


def all_layers() -> Iterator[Layer]:
    """Yield those of all editions."""
    return itertools.chain.from_iterable(map(layers, editions.EDITIONS.values()))


def narrowed(
    variants: Sequence[str] = (),
    accuracy: str | None = None,
    edition: str | None = None,
    layer: str | None = None,
    images: Sequence[int] = (),
    wide: bool = False,
) -> list[Trial]:
    """Return what the options of the command line select; raise UsageError."""
    named = kernels.select(variants) if variants else VARIANTS.values()
    chosen = tuple(v for v in named if accuracy in {None, v.accuracy})
    if not chosen:
        raise UsageError(f"none of these variants is in class {accuracy}")
    found = editions.edition(edition or MAIN)
    wanted = [la for la in layers(found) if layer in {None, la.name}]
    if not wanted:
        raise UsageError(f"edition {found.name} has no layer {layer}")
    return [Trial(la, n, chosen, wide) for n in images or (IMAGES,) for la in wanted]


def programme() -> list[Trial]:
    """Return all that RESULTS.md shows."""
    fastest = tuple(kernels.best(accuracy) for accuracy in kernels.BEST)
    main = list(layers(editions.EDITIONS[MAIN]))
    others = [layer for layer in all_layers() if layer.edition != MAIN]
    return [
        *(Trial(layer, IMAGES, tuple(VARIANTS.values())) for layer in main),
        *(Trial(layer, images, fastest) for images in SIZES for layer in main),
        *(Trial(layer, IMAGES, fastest) for layer in others),
        *(Trial(layer, IMAGES, (kernels.best(FP32),), wide=True) for layer in main),
    ]


def arithmetic(part: Variant) -> str:
    """Return what a variant multiplies with: FMA units or tensor cores."""
    if part.accuracy != FP32:
        return HALF
    # Variants that support the ladder's oldest GPU do not use tensor cores.
    return FMA if LADDER_TARGETS[0] in part.targets else SPLIT
