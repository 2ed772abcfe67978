"""Measure accuracy, agreement and Op Times of every model on every backend."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tools.benchmarks import rows
from tools.benchmarks.programs import program

WORKER = Path(__file__).with_name("agreement_worker.py")
ON_CPU = ("float64", "numpy", "c++", "mxnet")
GOAL = "every prediction is float64's, ties apart"


def measure() -> Iterator[dict[str, object]]:
    """Compare our models, and those of RAI_MODELS_DIR if it is set."""
    yield from _compared({})
    if folder := os.environ.get("RAI_MODELS_DIR"):
        yield from _compared({"RAI_MODELS_DIR": folder})


def _compared(models: dict[str, str]) -> Iterator[dict[str, object]]:
    environ = {k: v for k, v in os.environ.items() if k != "RAI_MODELS_DIR"}
    with subprocess.Popen(
        program(WORKER, *(["--given"] if models else [])),
        env=environ | models,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            found = json.loads(line)
            name = "{edition} {model} by {backend}".format(**found)
            gpu = {} if found["backend"] in ON_CPU else {"gpu": _gpu()}
            yield rows.row(name, GOAL, found["differs"] == 0, **found, **gpu)
    if child.returncode:
        raise RuntimeError(f"{WORKER.name} exited {child.returncode}")


@cache
def _gpu() -> str:
    """Return the name of the first GPU, which programs use."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]
