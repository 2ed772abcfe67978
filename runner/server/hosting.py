"""Start a job host where none answers, apart from the server and its secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from runner import files
from runner.core import Problem, variables
from runner.core.errors import EngineError
from runner.process.detached import Detached, python
from runner.server.listening import answers
from runner.slurm import submission
from runner.slurm.target import SlurmTarget
from runner.store.settings import SETTINGS

LOG = "host.log"
ANSWERS_WITHIN_S = 30.0
OTHERS_WITHIN_S = 5.0
MOST_LOG_BYTES = 4096

PASSED = frozenset(
    (
        *submission.OF_SBATCH,
        *(*variables.PASSED, "TMPDIR", "XDG_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES"),
        *(setting.variable for setting in SETTINGS),
    )
)
"""What a job host has of the server's environment: nothing that is not named here."""


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a job host: none of the server's own secrets."""
    return {name: value for name, value in environ.items() if name in PASSED}


def start(
    socket: Path,
    home: Path,
    environ: Mapping[str, str],
    place: SlurmTarget | None = None,
) -> bool:
    """Start a job host at a socket, unless one answers there; return if it was started.

    It has a session of its own, so that no signal to the server or its terminal reaches
    it, and goes on when the server ends. With a ``place`` Slurm carries its runs out.

    Raises:
        EngineError: it does not answer; carries what it wrote.
    """
    if answers(socket):
        return False
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = home / LOG
    since = _size(log)
    command = [*python("runner.cli.main"), "server", "jobs"]
    command += ["--place", str(place)] if place else []
    host = Detached(
        [*command, "--socket", socket, "--home", home, "--log", log],
        env=environment(environ),
    )
    host.leave()
    until = time.monotonic() + ANSWERS_WITHIN_S
    while time.monotonic() < until:
        if answers(socket):
            return True
        if host.ended:
            # Another may be starting at this moment, as by systemd.
            until = min(until, time.monotonic() + OTHERS_WITHIN_S)
        time.sleep(0.05)
    raise EngineError(Problem(f"the job host did not start: {_said(log, since)}"))


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _said(log: Path, since: int) -> str:
    """Return the first line that the host wrote, but for warnings."""
    try:
        with log.open("rb") as file:
            file.seek(since)
            lines = file.read(MOST_LOG_BYTES).decode(errors="replace").splitlines()
    except OSError as error:
        return str(files.problem(error))
    said = (one for one in lines if one.strip() and not one.startswith("warning:"))
    return next(said, f"{log} does not say why")
