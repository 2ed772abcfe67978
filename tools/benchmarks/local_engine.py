"""Measure the local engine's overhead."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import projects, rows

LIMIT_S = 0.15


def measure() -> Iterator[dict[str, object]]:
    """Compare `rai run` of `true` with a plain subprocess, in one run.

    The plain side is a Python that starts `true`, as rai is a Python that starts it;
    the bare start of `true` alone is given beside.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        project = projects.write(Path(folder, "p"), projects.TRUE)
        plain = [sys.executable, "-c", "import subprocess; subprocess.run(['true'])"]
        taken = rows.alternated(
            {
                "rai": lambda: projects.rai_run(project, "--engine", "local"),
                "python_subprocess": lambda: subprocess.run(plain, check=True),
                "true": lambda: subprocess.run(["true"], check=True),
            },
            rounds=15,
        )
    medians = {name: statistics.median(times) for name, times in taken.items()}
    more = medians["rai"] - medians["true"]
    yield rows.row(
        "local engine, true",
        f"at most {LIMIT_S} s more than a plain subprocess",
        more <= LIMIT_S,
        more_than_true_ms=round(1000 * more, 1),
        more_than_python_ms=round(
            1000 * (medians["rai"] - medians["python_subprocess"]), 1
        ),
        **{name: rows.spread(times) for name, times in taken.items()},
    )
