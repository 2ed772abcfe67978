"""Runs by real workers for tests, and sealed projects for them."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner import pack
from runner.core import RunRequest
from runner.core.request import NO_TERMS, Answer, Terms, from_json
from runner.execution import prepare
from runner.execution import session as running
from runner.execution.prepare import NONE_GIVEN
from runner.server.decision import RunStatus
from runner.server.folders import ServerRuns
from runner.server.workers import ThisMachine, children
from runner.store import runs
from runner.store.home import make
from runner.store.paths import RunPaths
from tests.kit.waiting import until


class SealedProject(Struct, frozen=True):
    """A sealed project, of which any number of runs are made: files, and the parcel."""

    parcel: Path
    source: Path
    asked: RunRequest


def project(folder: Path, *commands: str, **resources: object) -> Path:
    """Write a build file with these commands into a folder, and return that."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "rai": {"image": "debian:bookworm-slim"},
        "resources": resources,
        "commands": {"build": list(commands)},
    }
    (folder / "rai_build.yml").write_text(json.dumps(spec))
    return folder


def sealed(
    folder: Path,
    *commands: str,
    options: prepare.Options = NONE_GIVEN,
    **resources: object,
) -> SealedProject:
    """Pack a project whose build file has these commands, as a client does."""
    made = project(folder / f"project-{secrets.token_hex(4)}", *commands, **resources)
    return packed(made, folder, options)


def packed(
    project: Path, folder: Path, options: prepare.Options = NONE_GIVEN
) -> SealedProject:
    """Pack and seal a project's folder."""
    prepared = prepare.prepare(project, options)
    paths = RunPaths(folder / secrets.token_hex(5))
    paths.root.mkdir()
    for _ in running.sealed(prepared, paths):
        pass
    secret = prepared.request.asked.secret
    asked = replace(pack.read_parcel(paths.parcel), secret=secret)
    return SealedProject(paths.parcel, paths.source, asked)


class Begun:
    """The folders of runs with real workers; ``restart`` is another server's view."""

    def __init__(self, home: Path, **environ: str) -> None:
        self.home = make(home)
        self.environ = {**os.environ, **environ}
        self.ends = 0
        self.restart()

    def restart(self) -> None:
        """See the runs as a new server does."""
        self.machine = ThisMachine(self.home, children(self.home, self.environ))
        self.runs = ServerRuns(self.home, self.machine)
        self.runs.ended = self._ended

    def paths(self, run_id: str) -> RunPaths:
        """Return the paths of a run's folder."""
        return self.home.run(run_id)

    def start(
        self,
        run_id: str,
        project: SealedProject,
        engine: str = "local",
        terms: Terms = NO_TERMS,
    ) -> Answer:
        """Start a run of what the project's parcel says by now."""
        asked = replace(
            from_json(project.parcel.read_bytes()),
            engine=engine,
            secret=project.asked.secret,
            terms=terms,
        )
        return self.runs.start(run_id, asked, project.source)

    def run(self, run_id: str) -> RunStatus | None:
        """Return what the run's folder tells."""
        return self.runs.look([run_id]).get(run_id)

    def ended(self, run_id: str) -> RunStatus:
        """Wait for the end of a run."""

        def found() -> RunStatus | None:
            run = self.run(run_id)
            return run if run and run.ended else None

        return until(found)

    def said(self, run_id: str, text: str) -> None:
        """Wait until a run has printed something."""
        log = self.paths(run_id).stdout
        until(lambda: log.exists() and text in log.read_text())

    def close(self) -> None:
        """End what goes on."""
        for run_id in runs.names(self.home):
            if (run := self.run(run_id)) and run.claimed and not run.ended:
                self.paths(run_id).cancel.touch()
                self.ended(run_id)

    def _ended(self) -> None:
        self.ends += 1


def new_id() -> str:
    return secrets.token_hex(5)
