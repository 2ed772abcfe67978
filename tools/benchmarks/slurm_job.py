"""The default job by a Slurm, beside the same job by the same machine's own rai.

What is compared is the time beside a run's commands, since these vary by seconds.

With a GPU it is the job of this repository, and Slurm gives the GPU; without one a job
that sleeps a second. Slurm schedules as it does by default.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kit import cluster, gpunode
from tools.benchmarks import projects, rows

ROUNDS = int(os.environ.get("RAI_BENCH_RUNS", "3"))
MOST_OVER_S = 3.0
NAP = "rai: {version: 0.2}\ncommands: {build: [sleep 1, echo done >made]}\n"


@dataclass
class Job:
    """How long a job took, and its commands; Op Times of the command `final`."""

    took_s: float
    commands_s: float
    op_times_s: list[list[float]]


def measure() -> Iterator[dict[str, object]]:
    """Time the job here and by Slurm in turns."""
    if absent := cluster.absent():
        print(f"not measured: {absent}")
        return
    gpu = projects.gpu_here()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = rows.ROOT if gpu else projects.write(folder / "p", NAP)
        env = {
            **os.environ,
            "RAI_ENGINE": "local",
            "RAI_HOME": str(folder / "home"),
            "RAI_SLURM": f"--cpus-per-task={os.cpu_count()}",
        }
        with gpunode.gpu_cluster(constrained=False, settings={}) as nodes:
            env["SLURM_CONF"] = str(nodes.conf)
            here, there = _in_turns(project, env)
        more: dict[str, object] = {}
        if gpunode.why_unconstrained() is None:
            with gpunode.gpu_cluster(constrained=True, settings={}) as nodes:
                env["SLURM_CONF"] = str(nodes.conf)
                more["constrained"] = asdict(_run(project, "slurm", env))
    over_s = _beside_s(there) - _beside_s(here)
    yield rows.row(
        f"{'the default job on a GPU' if gpu else 'a job of a second'} by Slurm",
        f"exit 0, and at most {MOST_OVER_S:g} s over the same job here, beside its"
        " commands",
        over_s <= MOST_OVER_S,
        over_s=round(over_s, 2),
        here=[asdict(job) for job in here],
        slurm=[asdict(job) for job in there],
        **more,
    )


def _in_turns(project: Path, env: dict[str, str]) -> tuple[list[Job], list[Job]]:
    here, there = [], []
    for _ in range(ROUNDS):
        here.append(_run(project, "here", env))
        there.append(_run(project, "slurm", env))
    return here, there


def _beside_s(jobs: list[Job]) -> float:
    return statistics.median(job.took_s - job.commands_s for job in jobs)


def _run(project: Path, on: str, env: dict[str, str]) -> Job:
    """Run the project, and read of its record what its commands took."""
    began = time.perf_counter()
    run = [projects.RAI, "run", "-p", str(project), "--on", on]
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=False)
    took_s = time.perf_counter() - began
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    show = [projects.RAI, "show", "latest", "--json"]
    shown = subprocess.run(show, env=env, capture_output=True, text=True, check=True)
    commands = json.loads(shown.stdout)["commands"]
    final = [each for each in commands if each["name"] == "final"]
    found = [one for each in final for one in each["findings"]["inferences"]]
    return Job(
        round(took_s, 2),
        round(sum(each["wall_s"] or 0 for each in commands), 2),
        [one["op_times_s"] for one in found],
    )
