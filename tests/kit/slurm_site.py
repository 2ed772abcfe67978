"""A user of a cluster: projects, runs that are handed over, and what became of them."""

from __future__ import annotations

import json
import os
import signal
import string
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from runner.core import RunRecord, record
from runner.execution import places
from runner.store.paths import Home, RunPaths
from tests.kit.cluster import Cluster
from tests.kit.program import rai
from tests.kit.waiting import until

SMALL = {"limits": {"memory": "512MiB", "time": "5m"}}
IMAGE = MappingProxyType({"image": "debian:bookworm-slim"})
PATIENCE_S = 60.0


def project(
    folder: Path,
    *commands: object,
    head: Mapping[str, object] = IMAGE,
    **resources: object,
) -> str:
    """Make a project in a folder, of which several jobs fit on a node."""
    made = folder / "project"
    made.mkdir(exist_ok=True)
    spec = {
        "rai": dict(head),
        "resources": {**SMALL, **resources},
        "commands": {"build": list(commands)},
    }
    (made / "rai_build.yml").write_text(json.dumps(spec))
    return str(made)


def left(*words: str) -> str:
    """Hand a run over, leave it, and return its id."""
    done = rai("run", "--on", "slurm", "--detach", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ended(paths: RunPaths) -> RunRecord:
    """Return a run's record once somebody has written it."""
    until(paths.record.exists)
    return record.from_json(paths.record.read_bytes())


@dataclass
class HandedOver:
    """A run whose command writes a line into a file outside each time that it runs."""

    site: Site
    paths: RunPaths
    trace: Path

    @property
    def job(self) -> int:
        """The number of its job."""
        return int(json.loads(self.paths.handed.read_bytes())["number"])

    @property
    def node(self) -> str:
        """The node of its job."""
        return self.site.cluster.ask("squeue", "-h", "-j", f"{self.job}", "-o", "%N")[
            :-1
        ]

    @property
    def times(self) -> int:
        """How often its command has begun."""
        return len(self.trace.read_text().splitlines()) if self.trace.exists() else 0

    def begun(self) -> HandedOver:
        """Wait until its command runs."""
        until(lambda: self.times, f"it does not begin:{self.site.cluster.logs()}")
        return self

    @property
    def worker(self) -> int:
        """The process that carries it out."""
        pid: int = json.loads(self.paths.holder.read_bytes())["process"]["pid"]
        return pid

    def kill_worker(self) -> None:
        """End its worker by SIGKILL."""
        os.kill(self.worker, signal.SIGKILL)

    def ended(self, patience_s: float = PATIENCE_S) -> RunRecord:
        """Return its record once it has ended, by whatever."""
        assert places.wait(self.paths, patience_s), self.site.cluster.logs()
        return record.from_json(self.paths.record.read_bytes())

    def kept_its_word(self) -> RunRecord:
        """Return its record; fail if it ran twice, or claims what did not happen."""
        found = self.ended()
        assert self.times <= 1, self.site.cluster.logs()
        if found.verdict is not None and found.verdict.ran:
            assert self.times == 1
            assert [c.exit_code for c in found.commands] == [0]
        return found


@dataclass
class Site:
    """A cluster, and a folder for a user's projects and runs."""

    cluster: Cluster
    folder: Path
    traces: dict[str, Path] = field(default_factory=dict)
    """What the command of each project writes, by the project's folder."""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def home(self) -> Home:
        """The home of the user's runs."""
        return Home(Path(self.env["RAI_HOME"]))

    def project(self, commands: Sequence[str], **resources: Any) -> Path:
        """Make a project; several of its jobs fit on a node."""
        folder = Path(tempfile.mkdtemp(prefix="project", dir=self.folder))
        return Path(project(folder, *commands, **resources))

    def traced(self, script: str) -> tuple[Path, Path]:
        """Make a project of one command; return it, and the file that tells of it."""
        trace = self.folder / f"trace{uuid4().hex}"
        folder = self.project([f"echo ran >> {trace}; {script}"])
        self.traces[str(folder)] = trace
        return folder, trace

    def hand_over(self, script: str, *words: str) -> HandedOver:
        """Hand a run of one command over, and leave it."""
        folder, trace = self.traced(script)
        return HandedOver(self, self.home.run(left("-p", str(folder), *words)), trace)

    def settled(self) -> Counter[str]:
        """Wait for the end of all runs; return how many ended how.

        Fails if one ran twice, or claims what did not happen.
        """
        ends: Counter[str] = Counter()
        for folder in sorted(self.home.runs.glob(f"[{string.hexdigits}]*")):
            paths = self.home.run(folder.name)
            if places.wait(paths, PATIENCE_S) and not paths.root.exists():
                continue  # its client was killed before there was anything to tell
            assert paths.record.exists(), self.cluster.logs()
            found = record.from_json(paths.record.read_bytes())
            run = HandedOver(self, paths, self.traces[found.project])
            run.kept_its_word()
            ends[found.verdict.reason if found.verdict else ""] += 1
        assert all(trace.read_text() == "ran\n" for trace in self.begun())
        return ends

    def begun(self) -> list[Path]:
        """Return the traces of the commands that began."""
        return [trace for trace in self.traces.values() if trace.exists()]
