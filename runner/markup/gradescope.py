"""Runs as the results.json of an autograder on Gradescope.

The form is that of "Autograder Specifications" in Gradescope's documentation:
``tests`` with ``score``, ``max_score``, ``name``, ``status``, ``output`` and
``visibility``, and a ``leaderboard`` of named values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner import report
from runner.core import CommandRecord, Outcome, Reason
from runner.core.screen import printable
from runner.core.work import LEFT_OUT, NO_GPU_HERE
from runner.markup import reported
from runner.markup.reported import ReportedRun, how

VISIBILITIES = ("visible", "hidden", "after_due_date", "after_published")
"""Who sees a test: students always, never, after the due date, or with the grades."""

MOST_TESTS = 500

_NOT_MEANT = (NO_GPU_HERE, LEFT_OUT)
"""Why a command was skipped that was not meant to run there."""


def results(
    runs: Sequence[ReportedRun], visibility: str = "visible", points: float = 1.0
) -> dict[str, Any]:
    """Return the runs as the values of results.json.

    Each command is a test worth ``points``; a command that failed, was wrong or did not
    end gets none, and so do those that the run did not reach. One that was skipped, as
    it needs a GPU and there is none, is listed without a score. The leaderboard has the
    Op Time and the correctness that the last run printed, if that run ended well: they
    are the program's own words.
    """
    tests = [
        _test(run, command, visibility, points)
        for run in runs
        for command in run.record.first_round
    ]
    told = [
        f"Run {run.record.id}: {_verdict(run)}" for run in runs if run.record.verdict
    ]
    cut = tests[MOST_TESTS:]
    if cut:
        told.append(f"{len(cut)} more commands are counted and not listed.")
    found: dict[str, Any] = {
        "output": printable("\n".join(told)),
        "output_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "execution_time": round(sum(_took(run) for run in runs)),
        "tests": tests[:MOST_TESTS],
    }
    if not tests or cut:
        # Without a score of its own Gradescope adds up those of the tests.
        found["score"] = sum(float(test.get("score", 0)) for test in tests)
    if board := _leaderboard(runs[-1]) if runs else []:
        found["leaderboard"] = board
    return found


def submission(
    said: Sequence[str],
    score: float,
    ms: float | None = None,
    ratio: float | None = None,
) -> dict[str, Any]:
    """Return what came of a submission as the values of results.json.

    ``said`` are the sentences that its team reads. ``ms`` and ``ratio`` are its time
    and that divided by the reference's, None where there is none.
    """
    found: dict[str, Any] = {
        "score": score,
        "output": printable("\n".join(said)),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
    }
    figures = (("Time (ms)", ms), ("Ratio", ratio))
    board = [(name, value) for name, value in figures if value is not None]
    if board:
        found["leaderboard"] = [
            {"name": name, "value": value, "order": "asc"} for name, value in board
        ]
    return found


def _test(
    run: ReportedRun, command: CommandRecord, visibility: str, points: float
) -> dict[str, Any]:
    good = command.outcome is Outcome.OK
    lines = [] if good else [how(command)]
    lines += [command.why] if command.why else []
    lines += [report.mismatch(c) for c in command.checks if not c.holds]
    if fault := command.findings.gpu_fault:
        lines.append(f"{fault.kind.words}: {fault.line}")
    lines += filter(None, [report.figures_in_words(command.findings)])
    lines += filter(None, [run.tail(command)])
    scored = {
        "status": "passed" if good else "failed",
        "score": points if good else 0.0,
        "max_score": points,
    }
    return {
        "number": str(command.number),
        "name": printable(report.titled(command.name, command.text)),
        "name_format": "text",
        **({} if command.why in _NOT_MEANT else scored),
        "output": printable("\n".join(lines)),
        "output_format": "text",
        "visibility": visibility,
    }


def _verdict(run: ReportedRun) -> str:
    verdict = run.record.verdict
    if verdict is None:
        return ""
    text = f": {verdict.message}" if verdict.message else ""
    return f"{report.words(verdict.reason)}{text}"


def _took(run: ReportedRun) -> float:
    record = run.record
    return max(0.0, (record.ended_at or record.created_at) - record.created_at)


def _leaderboard(run: ReportedRun) -> list[dict[str, Any]]:
    verdict = run.record.verdict
    if verdict is None or verdict.reason is not Reason.DONE:
        return []
    last: dict[str, float] = {}
    for name, value in reported.figures(run.record).items():
        last[name.partition("[")[0]] = value
    kinds = (
        ("op_time", "Op Time (s)", "asc"),
        ("correctness", "Correctness", "desc"),
        ("agreement", "Agreement (synthetic)", "desc"),
    )
    return [
        {"name": name, "value": last[key], "order": order}
        for key, name, order in kinds
        if key in last
    ]
