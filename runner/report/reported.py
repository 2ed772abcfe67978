"""What others are told of a run: its commands' ends, its figures, its problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from msgspec import Struct

from runner.core import (
    CommandRecord,
    Outcome,
    Place,
    Problem,
    Reason,
    RunRecord,
    Severity,
)
from runner.core.screen import TerminalFilter, printable, uncoloured
from runner.figures import table
from runner.figures.printed import is_wrong
from runner.figures.statistics import keys, known, samples
from runner.report import phrases

MOST_TAILS = 100
"""So many commands that failed are shown with the end of their output."""

TAIL_BYTES = 8 << 10
"""The most of a command's output that is shown."""


class ReportedRun(Struct, frozen=True):
    """A run's record, its tag, and by index the end of what its commands printed."""

    record: RunRecord
    tag: str = ""
    tails: Mapping[int, str] = {}

    def tail(self, command: CommandRecord) -> str:
        """Return the end of a command's output; "" where none is kept."""
        return self.tails.get(command.index, "")


def readable(data: bytes, *, whole: bool) -> str:
    """Return the end of a program's output as plain text.

    Sequences of terminals are gone, other controls are escaped. Unless it is ``whole``
    it begins with a line's beginning, if it has one.
    """
    shown = uncoloured(TerminalFilter().feed(data).decode(errors="replace"))
    if not whole:
        first, end, rest = shown.partition("\n")
        shown = f"...\n{rest if end else first}"
    return printable(shown.replace("\r\n", "\n").replace("\r", "\n")).rstrip("\n")


def reported_figures(record: RunRecord) -> dict[str, float]:
    """Return the figures of a run's commands that ended well, by name.

    A name is as a gate has it: ``op_time[final]``, ``command[2].wall``; of a command
    that was repeated they are medians. Shares are from 0 to 1, times in seconds, memory
    in bytes. Agreement and accuracy, which no gate judges, are a command's least.
    """
    found = {name: median(known(each)) for name, each in samples(record).items()}
    named = keys(record.commands)
    for one in table.networks(record, layers=False):
        shares = {"agreement": one.agreement, "accuracy": one.accuracy}
        for kind, share in shares.items():
            if share is not None and share >= 0:
                name = f"{kind}[{named.get(one.number - 1, one.number)}]"
                found[name] = min(share, found.get(name, share))
    return found


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
    found = [
        one
        for command in record.commands
        for one in _of_command(command, places.get(command.number - 1))
    ]
    yield from found
    verdict = record.verdict
    if verdict and verdict.reason is not Reason.DONE and not found:
        text = f"{verdict.message}\n{verdict.advice}"
        yield Annotation(f"rai: {phrases.words(verdict.reason)}", text)
    for text in record.warnings:
        yield Annotation("rai", text, Severity.WARNING)


def _of_command(command: CommandRecord, place: Place | None) -> Iterator[Annotation]:
    fault, number = fault_text(command), f"Command {command.number}"
    failed = command.outcome in (Outcome.FAILED, Outcome.UNFINISHED)
    told = fault or (
        command.findings.mistake if failed or is_wrong(command.findings) else ""
    )
    named = phrases.titled(command.name, command.text)
    text = f"{named}\n{told}" if told else named
    if failed:
        title = f"{number}: {how(command)}{phrases.in_round(command)}"
        yield Annotation(title, text, place=place)
    elif told:
        title = f"{number}: {'GPU fault' if fault else 'wrong answer'}"
        yield Annotation(title, text, Severity.WARNING, place)
    for check in command.checks:
        if not check.holds:
            wrong = phrases.mismatch(check)
            yield Annotation(
                f"{number}: wrong answer", wrong, place=check.place or place
            )


def how(command: CommandRecord) -> str:
    """Describe in a few words how a command ended."""
    if command.reason:
        return phrases.words(command.reason)
    if command.outcome is Outcome.FAILED:
        return f"exit status {command.exit_code}"
    return command.outcome.value


def fault_text(command: CommandRecord) -> str:
    """Return the fault of a GPU that a command reported, and its line."""
    found = command.findings.gpu_fault
    return f"{found.kind.words}: {found.line}" if found else ""
