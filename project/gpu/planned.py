"""What a plan.json has of a convolution: its shape, file, memory and launches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from course import graph
from course.editions import Edition
from course.errors import UsageError
from course.shapes import ConvShape
from course.variants import Launch, Variant
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


def convolution(name: str, part: Variant, shape: ConvShape, unit: Unit) -> Json:
    """Return how a variant computes a layer on GPUs of its own one's architecture."""
    return {
        "name": name,
        "shape": asdict(shape),
        "storage": part.storage,
        "unit": {
            "file": unit.path.relative_to(compiler.FOLDER).as_posix(),
            "target": unit.target(part.gpu.architecture),
            "defines": dict(unit.defines),
        },
        "constants": list(part.constants),
        "scratch": dict(part.scratch(shape)),
        "launches": [launch(one) for one in part.planned(shape)],
    }


def launch(one: Launch) -> Json:
    """Return a launch, with arithmetic for a grid that depends on the GPU."""
    found = asdict(one)
    each, together = found.pop("resident"), found.pop("together")
    if each:
        most = f"{each} * MULTIPROCESSORS"
        if together > 1:
            most = f"{together} * max(1, {most} // {together})"
        found["grid"] = f"min({one.grid[0]}, {most})", *one.grid[1:]
    return found
