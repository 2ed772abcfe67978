"""What tests of the whole program have in common."""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).resolve().parent
NVPROF = HERE.parent
PROGRAM = (sys.executable, "-I", str(NVPROF / "nvprof"))
CUDA = (sys.executable, str(HERE / "fake_cuda.py"))
TIME = shutil.which("time", path="/usr/bin:/bin")
DEADLINE_S = 60


def shown(said):
    """Return the processes whose results were printed."""
    return re.findall(r"==(\d+)== Profiling result:", said)


def counts(path):
    both = "SELECT (SELECT count(*) FROM kernel), (SELECT count(*) FROM api)"
    with closing(sqlite3.connect(path)) as base:
        return base.execute(both).fetchone()
