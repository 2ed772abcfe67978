"""What of a run is worth an annotation beside the code or above the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from runner import report
from runner.core import (
    CommandRecord,
    Outcome,
    Place,
    Problem,
    Reason,
    RunRecord,
    Severity,
)


class Annotation(Struct, frozen=True):
    """A problem with a title; ``place`` is where in a file it is, if it is in one."""

    title: str
    text: str
    severity: Severity = Severity.ERROR
    place: Place | None = None


def of_problem(problem: Problem, title: str) -> Annotation:
    """Return the annotation of a problem of a file or of this machine."""
    return Annotation(title, problem.finding, problem.severity, problem.place)


def of_record(
    record: RunRecord, places: Mapping[int, Place | None]
) -> Iterator[Annotation]:
    """Yield what went wrong in a run, command by command, then its warnings.

    ``places`` says by index where in the build file a command stands.
    """
    told = False
    for command in record.commands:
        for one in _of_command(command, places.get(command.number - 1)):
            told = True
            yield one
    verdict = record.verdict
    if verdict and verdict.reason is not Reason.DONE and not told:
        text = f"{verdict.message}\n{verdict.advice}"
        yield Annotation(f"rai: {report.words(verdict.reason)}", text)
    for text in record.warnings:
        yield Annotation("rai", text, Severity.WARNING)


def _of_command(command: CommandRecord, place: Place | None) -> Iterator[Annotation]:
    named = report.titled(command.name, command.text)
    fault = command.findings.gpu_fault
    if command.outcome in (Outcome.FAILED, Outcome.UNFINISHED):
        title = f"Command {command.number}: {how(command)}{report.in_round(command)}"
        text = f"{named}\n{fault.kind.words}: {fault.line}" if fault else named
        yield Annotation(title, text, place=place)
    elif fault:
        text = f"{named}\n{fault.kind.words}: {fault.line}"
        title = f"Command {command.number}: GPU fault"
        yield Annotation(title, text, Severity.WARNING, place)
    for check in command.checks:
        if not check.holds:
            title = f"Command {command.number}: wrong answer"
            yield Annotation(title, report.mismatch(check), place=check.place or place)


def how(command: CommandRecord) -> str:
    """Describe in a few words how a command ended."""
    if command.reason:
        return report.words(command.reason)
    if command.outcome is Outcome.FAILED:
        return f"exit status {command.exit_code}"
    return command.outcome.value
