"""A Slurm of two nodes for benchmarks, with its scheduler as it is by default."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from runner.core import RunRecord, record
from runner.store.paths import RunPaths
from tests.kit import cluster
from tests.kit.slurm_site import Site
from tests.kit.waiting import until
from tools.benchmarks import projects

PATIENCE_S = 120.0
DEFAULT: Mapping[str, str] = MappingProxyType({})
ANSWER_S = 120.0
COUNTED = """\
#!/bin/sh
date +%s.%N >>{log}
exec {program} "$@"
"""


class SlurmSite(Site):
    """A user of a cluster, who starts rai as a program and counts calls of squeue."""

    def runs(self) -> set[RunPaths]:
        """Return the runs that there are."""
        return {RunPaths(path) for path in self.home.runs.glob("[0-9a-f]*")}

    @property
    def queries(self) -> Path:
        """Has a line, the time, for each call of squeue by rai."""
        return self.folder / "queries"

    def rai(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run rai to its end, whatever its exit status."""
        return subprocess.run(
            [projects.RAI, *words],
            env={**self.env, **environ},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=10 * ANSWER_S,
        )

    def start(self, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start rai without its output, in a session of its own."""
        return subprocess.Popen(
            [projects.RAI, *words],
            env={**self.env, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def left(self, project: Path) -> RunPaths:
        """Hand a run over and leave it."""
        words = ("-p", str(project), "--on", "slurm", "--detach")
        done = self.rai("run", *words)
        assert done.returncode == 0, done.stderr
        return self.home.run(done.stdout.strip())


@contextmanager
def site(
    engine: str = "bare", settings: Mapping[str, str] = DEFAULT
) -> Iterator[SlurmSite]:
    """Start a cluster of two nodes, and count who calls squeue.

    Without ``settings`` jobs start as late as by Slurm's own defaults.
    """
    if why := cluster.absent():
        raise SystemExit(why)
    with (
        tempfile.TemporaryDirectory() as name,
        cluster.cluster(settings=settings) as made,
    ):
        folder = Path(name)
        wrapped = folder / "bin" / "squeue"
        wrapped.parent.mkdir()
        program = cluster.found("squeue")
        wrapped.write_text(COUNTED.format(log=folder / "queries", program=program))
        wrapped.chmod(0o755)
        env = {
            **made.environment,
            "PATH": f"{wrapped.parent}:{os.environ['PATH']}",
            "RAI_HOME": f"{folder}/home",
            "RAI_ENGINE": engine,
        }
        env.pop("CI", None)
        yield SlurmSite(made, folder, env=env)


def ended(paths: RunPaths, within_s: float = PATIENCE_S) -> RunRecord:
    """Wait for a run's record, which somebody else has to write."""
    until(paths.record.exists, f"{paths.root} has no record", within_s)
    return record.from_json(paths.record.read_bytes())


def timed(way: Callable[[], object]) -> float:
    """Return how many seconds something takes."""
    began = time.perf_counter()
    way()
    return time.perf_counter() - began
