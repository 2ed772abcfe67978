"""The machine of one job: its folders, variables and files, between the steps."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workflows.refused import RefusedError

SHELLS = {
    None: ("bash", "-e"),
    "bash": ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail"),
}
"""How the runner starts a script on Linux, where `shell:` says this."""

OTHERS = re.compile(r"(RAI|GITHUB|RUNNER|PYTHON|VIRTUAL_ENV|PYTEST|COV|XDG)(_|$)|CI$")
"""Variables of whoever starts a job here that the runner would not have."""

FILES = ("ENV", "OUTPUT", "PATH", "STEP_SUMMARY")
LARGEST_SUMMARY = 1024 * 1024
"""Of one step, in bytes; GitHub shows none that is larger."""

TIME_LIMIT_S = 600.0


@dataclass
class Machine:
    """A runner's machine: ``repository`` is what is checked out, below ``root`` work.

    ``actions`` are folders for names of actions that are not in the workspace.
    """

    root: Path
    repository: Path
    github: dict[str, Any]
    actions: dict[str, Path] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    summary: str = ""
    said: list[str] = field(default_factory=list)
    commands: int = 0

    def __post_init__(self) -> None:
        """Make the folders that a runner has."""
        for folder in (self.workspace, self.temp, self.artifacts, self.home):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def workspace(self) -> Path:
        """The folder that a repository is checked out to."""
        return self.root / "work" / "project"

    @property
    def temp(self) -> Path:
        """The folder that is emptied after a job."""
        return self.root / "temp"

    @property
    def artifacts(self) -> Path:
        """Where uploaded artifacts lie, a folder each."""
        return self.root / "artifacts"

    @property
    def home(self) -> Path:
        """The home of the user that the runner has."""
        return self.root / "home"

    def environment(self, *more: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a step."""
        env = {n: v for n, v in os.environ.items() if not OTHERS.match(n)}
        own = str(Path(sys.executable).parent)
        path = [p for p in env["PATH"].split(os.pathsep) if p != own]
        env |= {"CI": "true", "GITHUB_ACTIONS": "true", "HOME": str(self.home)}
        env |= {
            "RUNNER_OS": "Linux",
            "RUNNER_ARCH": "X64",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_WORKSPACE": str(self.workspace),
        }
        # The new home has no settings for pip: those of whoever starts the job count.
        env.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
        if (config := Path.home() / ".config" / "pip" / "pip.conf").is_file():
            env.setdefault("PIP_CONFIG_FILE", str(config))
        for name, value in self.github.items():
            if isinstance(value, str):
                env[f"GITHUB_{name.upper()}"] = value
        for variables in (self.variables, *more):
            env |= variables
        env["PATH"] = os.pathsep.join([*reversed(self.paths), *path])
        return env

    def run(
        self,
        script: str,
        shell: str | None,
        folder: Path,
        env: Mapping[str, str],
        minutes: float | None,
    ) -> tuple[int, dict[str, str]]:
        """Run a script as the runner does; return its exit status and its outputs.

        What it wrote to the files of the runner is taken over.
        """
        if shell not in SHELLS:
            raise RefusedError(f"unknown shell: {shell}")
        if "${{" in script:
            raise RefusedError(f"a script with an expression in it: {script}")
        self.commands += 1
        file = self.temp / f"{self.commands}.sh"
        file.write_text(script)
        files = {name: self.temp / f"{self.commands}_{name}" for name in FILES}
        for each in files.values():
            each.touch()
        names = {f"GITHUB_{name}": str(path) for name, path in files.items()}
        log = self.temp / f"{self.commands}.log"
        with log.open("wb") as out:
            started = subprocess.Popen(
                [*SHELLS[shell], str(file)],
                cwd=folder,
                env={**env, **names},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = started.wait(min(minutes * 60 if minutes else 1e9, TIME_LIMIT_S))
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                code = started.wait()
        self.said.append(log.read_text(errors="replace"))
        self.variables |= pairs(files["ENV"].read_text())
        self.paths += filter(None, files["PATH"].read_text().splitlines())
        self._summarise(files["STEP_SUMMARY"])
        return code, pairs(files["OUTPUT"].read_text())

    def _summarise(self, file: Path) -> None:
        if file.stat().st_size > LARGEST_SUMMARY:
            raise RefusedError("a step's summary is over 1024 KiB")
        self.summary += file.read_text()


def pairs(text: str) -> dict[str, str]:
    """Read NAME=VALUE, and NAME<<END with lines up to END, as the runner does."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if not line:
            continue
        equal, here = line.find("="), line.find("<<")
        if equal > 0 and (here < 0 or equal < here):
            found[line[:equal]] = line[equal + 1 :]
        elif here > 0:
            end, value = line[here + 2 :], []
            for each in lines:
                if each == end:
                    break
                value.append(each)
            else:
                raise RefusedError(f"no line {end!r} ends the value of {line[:here]}")
            found[line[:here]] = "\n".join(value)
        else:
            raise RefusedError(f"a line that says nothing: {line!r}")
    return found
