"""The summary of a report: each run, its verdict, and the machine that it ran on."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import Reason
from runner.report.blocks import Pairs, Paragraph, Part
from runner.report.document.nouns import Report, RunSummary
from runner.report.run import gpu_rows
from runner.report.words import commit, date, elsewhere, named_by, seconds, size, words

SYNTHETIC = (
    "These figures are of synthetic images: the data files were missing. The agreement"
    " is that with the reference's labels. It is no accuracy and no correctness."
)


def parts(report: Report) -> Iterator[Part]:
    """Yield each run's warnings and facts."""
    for run in report.runs:
        if run.synthetic:
            of = f"Run {run.run}: " if len(report.runs) > 1 else ""
            yield Paragraph(f"{of}{SYNTHETIC}")
        if not run.state.final:
            yield Paragraph(
                f"Run {run.run} has not ended: it is {run.state}. The report has what"
                " is there so far."
            )
        yield Pairs(tuple((name, value) for name, value in _rows(run) if value))


def _rows(run: RunSummary) -> Iterator[tuple[str, str]]:
    yield "run", run.run
    yield "tag", run.tag
    yield "note", run.note
    yield "result", _result(run)
    if run.verdict and run.verdict.reason is not Reason.DONE:
        yield "", run.verdict.message
        yield "advice", run.verdict.advice
    yield "state", "" if run.verdict else run.state.value
    yield "", elsewhere(run.run, run.away) if run.away else ""
    yield "images", "SYNTHETIC; agreement is not an accuracy" if run.synthetic else ""
    yield "project", run.project
    yield "part of", run.title
    yield "date", date(run.created_at)
    yield "took", seconds(run.took_s)
    yield "rounds", _rounds(run)
    yield "only", ", ".join(run.only)
    yield "commit", commit(run.git)
    yield from _where(run)
    yield "peak memory", size(run.peak_memory_bytes) or "not known"
    yield "data", ", ".join(run.data)
    yield "missing data", ", ".join(run.missing_data)
    yield "incomplete", run.unfound
    for text in run.warnings:
        yield "warning", text
    for text in run.problems:
        yield "not read", text


def _where(run: RunSummary) -> Iterator[tuple[str, str]]:
    if machine := run.machine:
        memory = size(machine.memory_bytes)
        about = (machine.host, machine.cpu, f"{machine.cores} cores", memory)
        yield "machine", ", ".join(about)
        yield "system", machine.system
        yield "rai", machine.rai
    if run.gpu:
        yield from gpu_rows(run.gpu)
    else:
        yield "GPU", "none was given to the run"
    if engine := run.engine:
        yield "engine", f"{engine.name} {engine.version}".rstrip()
        yield "not enforced", ", ".join(engine.unenforced)
    if image := run.image:
        cuda = f", CUDA {image.cuda}" if image.cuda else ""
        yield "image", f"{image.shown}{cuda}"
        yield "", f"{image.action}: {image.why}"
        yield "", named_by(image)


def _result(run: RunSummary) -> str:
    """Return the verdict in a few words, with the exit code."""
    if run.verdict is None:
        return ""
    reason = run.verdict.reason
    answers = {True: ", answers right", False: ", answers wrong", None: ""}
    return f"{words(reason)} (exit {reason.exit_code}){answers[run.verdict.passed]}"


def _rounds(run: RunSummary) -> str:
    if run.rounds_wanted > 1:
        return f"{run.rounds} of {run.rounds_wanted}"
    return str(run.rounds) if run.rounds > 1 else ""
