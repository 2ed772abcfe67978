"""The default job by a Slurm, beside the same job by the same machine's own rai.

With a GPU it is the job of this repository, and Slurm gives the GPU; without one a job
that sleeps a second. Slurm schedules as it does by default.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import projects, rows
from tests.runner.slurm import cluster, gpunode

ROUNDS = int(os.environ.get("RAI_BENCH_RUNS", "3"))
MOST_OVER_S = 3.0
NAP = "rai: {version: 0.2}\ncommands: {build: [sleep 1, echo done >made]}\n"


def measure() -> Iterator[dict[str, object]]:
    """Time the job here and by Slurm in turns."""
    if absent := cluster.absent():
        print(f"not measured: {absent}")
        return
    gpu = projects.gpu_here()
    with (
        tempfile.TemporaryDirectory() as name,
        gpunode.gpu_cluster(constrained=False, settings={}) as nodes,
    ):
        folder = Path(name)
        project = rows.ROOT if gpu else projects.write(folder / "p", NAP)
        env = {
            **os.environ,
            "RAI_ENGINE": "local",
            "RAI_HOME": str(folder / "home"),
            "RAI_SLURM_CORES": str(os.cpu_count()),
            "SLURM_CONF": str(nodes.conf),
        }
        times: dict[str, list[object]] = {"here": [], "slurm": []}
        taken = rows.alternated(
            {
                way: lambda way=way: times[way].append(_run(project, way, env))
                for way in times
            },
            ROUNDS,
        )
    here, there = (statistics.median(taken[way]) for way in ("here", "slurm"))
    yield rows.row(
        f"{'the default job on a GPU' if gpu else 'a job of a second'} by Slurm",
        f"exit 0, and at most {MOST_OVER_S:g} s over the same job here",
        there - here <= MOST_OVER_S,
        here_s=[round(one, 2) for one in taken["here"]],
        slurm_s=[round(one, 2) for one in taken["slurm"]],
        over_s=round(there - here, 2),
        here_op_times_s=times["here"][1:],
        slurm_op_times_s=times["slurm"][1:],
    )


def _run(project: Path, on: str, env: dict[str, str]) -> object:
    """Run the project; return the Op Times of its command `final`."""
    run = [projects.RAI, "run", "-p", str(project), "--on", on]
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    show = [projects.RAI, "show", "latest", "--json"]
    shown = subprocess.run(show, env=env, capture_output=True, text=True, check=True)
    final = [c for c in json.loads(shown.stdout)["commands"] if c["name"] == "final"]
    return [one["op_times_s"] for c in final for one in c["findings"]["inferences"]]
