"""The JSON Schemas in docs/schemas/, made of the types that rai reads with."""

from __future__ import annotations

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from runner.core.kernel_shapes import KernelShapes
from runner.core.measurement import Measurement
from runner.core.plan import SubmissionPlan
from runner.report.diff_nouns import RunDiff
from runner.report.document.nouns import Report

FOLDER = Path(__file__).resolve().parents[2] / "docs/schemas"
TYPES: dict[str, type] = {
    "diff": RunDiff,
    "measurement": Measurement,
    "plan": SubmissionPlan,
    "report": Report,
    "rai-kernels": KernelShapes,
}
"""The type of each schema's files, by the schema's name."""


def page(name: str) -> str:
    """Make the schema of that name."""
    schema = _tidied(msgspec.json.schema(TYPES[name]))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema, indent=1) + "\n"


def _tidied(value: Any) -> Any:
    """Take the indentation, which differs by Python's version, out of descriptions."""
    match value:
        case {"description": str(text)}:
            rest = {k: _tidied(v) for k, v in value.items()}
            return rest | {"description": cleandoc(text).replace("``", "`")}
        case dict():
            return {k: _tidied(v) for k, v in value.items()}
        case list():
            return [_tidied(v) for v in value]
    return value


def write() -> None:
    """Write every schema."""
    for name in TYPES:
        (FOLDER / f"{name}.json").write_text(page(name))
