"""Run the named benchmarks, or all: python -m tools.benchmarks [NAME...]."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from tools.benchmarks import rows

NAMES = (
    "code",
    "startup",
    "first_result",
    "many_runs",
    "server_store",
    "queue",
    "turns",
    "watching",
    "watching_server",
    "lasting",
    "crashes",
    "server",
    "server_job",
    "pages",
    "submissions",
    "slurm_job",
    "followed",
    "slurm",
    "slurm_kills",
    "slurm_many",
    "slurm_server",
    "local_engine",
    "docker_engine",
    "stream",
    "hostile_output",
    "screen",
    "report",
    "pack",
    "convolution",
    "images",
    "gpu_start",
    "gpu_job",
    "nvprof",
    "traces",
    "timeline",
    "milestones",
    "agreement",
)


def main() -> None:
    """Run benchmarks and append their rows."""
    # Python caches bytecode for users too.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in sys.argv[1:] or NAMES:
        if name not in NAMES:
            sys.exit(f"unknown benchmark {name!r}; choose from {', '.join(NAMES)}")
        for measured in import_module(f"tools.benchmarks.{name}").measure():
            rows.keep(measured)


if __name__ == "__main__":
    main()
