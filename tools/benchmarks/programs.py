"""Run the project's programs with a configurable Python."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from tools.benchmarks import rows

VARIABLE = "RAI_BENCH_PYTHON"


def program(name: str | Path, *words: str) -> list[str]:
    """Return the command of a program in project/, or of the path.

    RAI_BENCH_PYTHON may name another Python, with words before and after it: one that
    has MXNet, or one in a container that sees this folder under the same path (whose
    memory cannot be measured from here).
    """
    python = shlex.split(os.environ.get(VARIABLE, "")) or [sys.executable]
    return [*python, str(rows.ROOT / "project" / name), *words]
