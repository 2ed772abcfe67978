"""What a plan.json has of a convolution: its shape, file, memory and launches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from course import graph
from course.editions import Edition
from course.errors import UsageError
from course.shapes import ConvShape
from course.variants import Variant
from gpu import compiler
from gpu.compiler import Unit

Json = dict[str, Any]


def shapes(edition: Edition, images: int) -> dict[str, ConvShape]:
    """Return the shapes of an edition's own convolutions, by name."""
    if images < 1:
        raise UsageError(f"{images} images; expected at least 1")
    model = edition.with_convolutions(own=True)[0]
    found = graph.convolutions(model.layers, images, edition.size)
    return {f"conv{n}": shape for n, shape in enumerate(found, 1)}


def convolution(
    name: str, part: Variant, shape: ConvShape, unit: Unit, architecture: str
) -> Json:
    """Return how a variant computes a layer on an architecture."""
    return {
        "name": name,
        "shape": asdict(shape),
        "storage": part.storage,
        "unit": {
            "file": unit.path.relative_to(compiler.FOLDER).as_posix(),
            "target": unit.target(architecture),
            "defines": dict(unit.defines),
        },
        "constants": list(part.constants),
        "scratch": dict(part.scratch(shape)),
        "launches": [asdict(launch) for launch in part.launches(shape)],
    }
