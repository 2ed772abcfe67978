"""Programs of Slurm and enroot that answer at once: what they said, bounded."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from runner import process
from runner.core import Stream
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import Output
from runner.engines.pyxis import words

REMOVE_S = 30.0

PASSED_ON = ("HOME", "USER", "LOGNAME", "PATH")
"""What enroot needs, to find the user's credentials and its own programs."""


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a step gets of the environment; no value may have a comma."""
    found = {name: environ.get(name, "") for name in PASSED_ON}
    return {name: value for name, value in found.items() if value and "," not in value}


def said(
    argv: list[str],
    timeout_s: float,
    most_bytes: int,
    cancel: Cancel,
    environ: Mapping[str, str],
) -> tuple[process.Ended, str, str]:
    """Run a program; return how it ended and the beginnings of its two outputs."""
    texts = {Stream.STDOUT: b"", Stream.STDERR: b""}
    stream = process.stream(
        argv,
        timeout_s=timeout_s,
        cancel=cancel,
        room=process.room(most_bytes),
        env=words.environment_of(environ),
        cwd=Path("/"),
    )
    while True:
        try:
            event = next(stream)
        except StopIteration as stop:
            out, errors = (text.decode(errors="replace") for text in texts.values())
            return stop.value, out, errors
        if isinstance(event, Output):
            texts[event.stream] += event.data


def last_lines(text: str) -> str:
    """Return the end of what a program printed, as one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-5:])[:1000] or "srun did not say why"


def remove(name: str, environ: Mapping[str, str]) -> None:
    """Remove a container where enroot is at hand; else pyxis does as the job ends."""
    if not name or shutil.which("enroot") is None:
        return
    job = environ.get("SLURM_JOB_ID", "")
    for full in (f"pyxis_{name}", f"pyxis_{job}_{name}"):
        with suppress(EngineError):
            process.run(["enroot", "remove", "-f", full], timeout_s=REMOVE_S)
