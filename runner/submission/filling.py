"""Fill in what plan.json leaves out, for a milestone's layers and a GPU. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from runner.core import Problem, arithmetic, plan_reader
from runner.core.plan import PlannedConvolution
from runner.core.shapes import LayerShape

_NUMBERS = ("grid", "block", "numbers", "shared_bytes")
"""What of a launch may be arithmetic."""


def of_layers(
    planned: tuple[PlannedConvolution, ...], wanted: tuple[LayerShape, ...]
) -> tuple[PlannedConvolution, ...]:
    """Return convolutions by name; one without a name becomes one for each layer."""
    if len(planned) > 1 or any(one.name for one in planned):
        return planned
    return tuple(replace(one, name=layer.name) for layer in wanted for one in planned)


def filled(
    one: PlannedConvolution, layer: LayerShape, architecture: str, path: str
) -> tuple[PlannedConvolution, list[Problem]]:
    """Return a layer's convolution in which all is said and each number is one.

    ``path`` is its JSON path, for the problems of arithmetic and of its values.
    """
    shape = layer.shape
    names = {
        **asdict(shape),
        "H_out": shape.H - shape.K + 1,
        "W_out": shape.W - shape.K + 1,
        **one.unit.defines,
    }
    problems: list[Problem] = []
    value = msgspec.to_builtins(one)
    for at, launch in enumerate(value["launches"]):
        for key in _NUMBERS:
            where = f"{path}.launches[{at}].{key}"
            launch[key] = _numbers(launch[key], names, where, problems)
    scratch = _numbers(value.get("scratch", {}), names, f"{path}.scratch", problems)
    value |= {"scratch": scratch, "shape": asdict(one.shape or shape)}
    value["unit"]["target"] = one.unit.target or architecture
    for each in plan_reader.wrong(value, PlannedConvolution, path):
        problems.append(replace(each, message=f"{each.message} for {layer.name}"))
    if problems:
        return one, problems
    return msgspec.convert(value, PlannedConvolution), []


def _numbers(
    value: Any,  # noqa: ANN401 - JSON
    names: Mapping[str, int],
    path: str,
    problems: list[Problem],
) -> Any:  # noqa: ANN401
    """Return a value with numbers for its texts; add what is wrong with these."""
    match value:
        case list() | tuple():
            each = enumerate(value)
            return [_numbers(v, names, f"{path}[{at}]", problems) for at, v in each]
        case dict():
            pairs = value.items()
            return {k: _numbers(v, names, f"{path}.{k}", problems) for k, v in pairs}
        case str():
            try:
                return arithmetic.value(value, names)
            except ValueError as error:
                text = f"{plan_reader.FILE}: {path} is {json.dumps(value)}"
                problems.append(Problem(text, hint=str(error)))
    return value
