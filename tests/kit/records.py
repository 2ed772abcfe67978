"""Records of runs and commands that ended, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.core import (
    CommandRecord,
    Findings,
    Inference,
    Outcome,
    Reason,
    RunRecord,
    State,
    Verdict,
)


def command(index: int = 0, text: str = "./x", **facts: Any) -> CommandRecord:
    """Return a command that succeeded, but for what ``facts`` say."""
    usual = {"name": None, "outcome": Outcome.OK, "exit_code": 0}
    return CommandRecord(index, text, **usual | facts)


def rounds(times_s: Sequence[float], text: str) -> tuple[CommandRecord, ...]:
    """Return a command and its repeats, one for each of these op times."""
    return tuple(
        command(
            number,
            text,
            wall_s=2.0 + time_s,
            repeats=0 if number else None,
            round=number,
            findings=Findings((Inference((time_s,), 0.8, "ece408"),)),
        )
        for number, time_s in enumerate(times_s)
    )


def ended(name: str, *commands: CommandRecord, **facts: Any) -> RunRecord:
    """Return a run that is done, 10 s after it was created."""
    began = facts.get("created_at", 1_790_000_000.0)
    usual = {
        "project": "/home/me/project",
        "spec_file": "rai_build.yml",
        "created_at": began,
        "ended_at": began + 10,
        "state": State.DONE,
        "verdict": Verdict(True, True, None, Reason.DONE),
        "commands": commands,
    }
    return RunRecord(name, **usual | facts)
