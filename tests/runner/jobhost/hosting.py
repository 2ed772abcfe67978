"""Real job hosts for tests: processes of their own, and sealed projects for them."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from runner import archive, session
from runner.core.errors import BusyError
from runner.jobhost.client import SocketHost
from runner.session.options import NONE_GIVEN
from runner.session.project import folder_project
from runner.store.paths import Home, RunPaths
from runner.wire.host import HostAnswer, HostRun, StartRun
from tests.waiting import until

SOON_S = 60.0
SERVE = """\
import sys
from pathlib import Path
from runner.jobhost.service import serve_jobs
serve_jobs(Path(sys.argv[1]), Path(sys.argv[2]))
"""

T = TypeVar("T")


class SealedFiles(Struct, frozen=True):
    """A sealed project: its two files, and its build file."""

    parcel: Path
    source: Path
    text: str


def sealed(
    folder: Path,
    *commands: str,
    options: session.Options = NONE_GIVEN,
    **resources: object,
) -> SealedFiles:
    """Pack a project whose build file has these commands, as a client does."""
    project = folder / f"project-{secrets.token_hex(4)}"
    project.mkdir()
    spec = {
        "rai": {"image": "debian:bookworm-slim"},
        "resources": resources,
        "commands": {"build": list(commands)},
    }
    (project / "rai_build.yml").write_text(json.dumps(spec))
    return packed(project, folder, options)


def packed(
    project: Path, folder: Path, options: session.Options = NONE_GIVEN
) -> SealedFiles:
    """Pack and seal a project's folder."""
    prepared = session.prepare(project, options)
    name = secrets.token_hex(4)
    source, parcel = folder / f"{name}.tar.zst", folder / f"{name}.json"
    own = folder_project(prepared.request.project, prepared.settings)
    packing = own.pack(source)
    while True:
        try:
            next(packing)
        except StopIteration as end:
            archive.seal(prepared.request, end.value, own.git(), parcel)
            return SealedFiles(parcel, source, prepared.text)


class HostProcess:
    """A job host in a process of its own; ``ask`` asks it."""

    def __init__(self, folder: Path, before: str = "", **environ: str) -> None:
        self.socket, self.home = folder / "jobs.sock", Home(folder / "home")
        self.environ = environ
        self.ask = SocketHost(self.socket)
        self.begin(before)

    def begin(self, before: str = "") -> None:
        """Start the process, which runs ``before`` first; wait until it answers."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", before + SERVE, self.socket, self.home.root],
            env={**os.environ, **self.environ},
        )
        until(self.answers)

    def kill(self) -> None:
        """End the process as the kernel does that is out of memory."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End the process as systemd does; return its exit status."""
        self.process.terminate()
        return self.process.wait(SOON_S)

    def paths(self, run_id: str) -> RunPaths:
        """Return the paths of a run's folder."""
        return self.home.run(run_id)

    def start(self, run_id: str, project: SealedFiles, **more: object) -> HostAnswer:
        """Start a run by the local engine."""
        settings = {"RAI_ENGINE": "local"}
        asked = StartRun(run_id, **{"settings": settings, **more})  # type: ignore[arg-type]
        return self.ask.start(asked, project.parcel, project.source)

    def run(self, run_id: str) -> HostRun | None:
        """Return what the host knows of a run."""
        return self.ask.look([run_id]).get(run_id)

    def ended(self, run_id: str) -> HostRun:
        """Wait for the end of a run."""

        def found() -> HostRun | None:
            run = self.run(run_id)
            return run if run and run.ended else None

        return until(found)

    def said(self, run_id: str, text: str) -> None:
        """Wait until a run has printed something."""
        log = self.paths(run_id).stdout
        until(lambda: log.exists() and text in log.read_text())

    def answers(self) -> bool:
        """Whether it answers now."""
        assert self.process.poll() is None, "the host ended"
        with suppress(BusyError):
            self.ask.look(["0" * 10])
            return True
        return False


@contextmanager
def serving(folder: Path, before: str = "", **environ: str) -> Iterator[HostProcess]:
    """Start a host; end it, and all that it started, afterwards."""
    host = HostProcess(folder, before, **environ)
    try:
        yield host
    finally:
        if host.process.poll() is not None:
            host.begin()
        for paths in map(host.home.run, _names(host.home)):
            if not paths.record.exists():
                with suppress(OSError):
                    paths.cancel.touch()
        for run_id in _names(host.home):
            with suppress(BusyError, AssertionError):
                if (run := host.run(run_id)) and run.claimed:
                    host.ended(run_id)
        host.process.kill()
        host.process.wait()


def _names(home: Home) -> Sequence[str]:
    return [path.name for path in home.runs.glob("[0-9a-f]*")]


def new_id() -> str:
    return secrets.token_hex(5)
