"""Runs as the results.json of Gradescope, and as JUnit's XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import PurePath
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from msgspec import Struct

from runner.core import (
    CommandRecord,
    Outcome,
    Reason,
    RunRecord,
)
from runner.core.screen import printable
from runner.core.work import LEFT_OUT, NO_GPU_HERE
from runner.report import ending, phrases
from runner.report.reported import (
    Annotation,
    ReportedRun,
    fault_text,
    how,
    reported_figures,
)

VISIBILITIES = ("visible", "hidden", "after_due_date", "after_published")
"""Who sees a test: students always, never, after the due date, or with the grades."""

MOST_TESTS = 500

_NOT_MEANT = (NO_GPU_HERE, LEFT_OUT)
"""Why a command was skipped that was not meant to run there."""

MOST_PROPERTIES = 2000
"""Figures of a run; what a profiler lists may be more."""

LONGEST_NAME = 500

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What is outside the production Char of XML 1.0, section 2.2."""


def _wrong(command: CommandRecord) -> list[str]:
    return [phrases.mismatch(check) for check in command.checks if not check.holds]


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
    lines = []
    for run in runs:
        if verdict := run.record.verdict:
            why = f": {verdict.message}" if verdict.message else ""
            lines.append(f"Run {run.record.id}: {phrases.words(verdict.reason)}{why}")
    cut = tests[MOST_TESTS:]
    if cut:
        lines.append(f"{len(cut)} more commands are counted and not listed.")
    found: dict[str, Any] = {
        **_text(lines, visibility),
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
    sentences: Sequence[str],
    score: float,
    ms: float | None = None,
    ratio: float | None = None,
) -> dict[str, Any]:
    """Return what came of a submission as the values of results.json.

    ``sentences`` are what its team reads. ``ms`` and ``ratio`` are its time
    and that divided by the reference's, None where there is none.
    """
    found: dict[str, Any] = {
        "score": score,
        **_text(sentences, "visible"),
        "stdout_visibility": "hidden",
    }
    figures = (("Time (ms)", ms), ("Ratio", ratio))
    if board := [
        {"name": name, "value": value, "order": "asc"}
        for name, value in figures
        if value is not None
    ]:
        found["leaderboard"] = board
    return found


def _text(lines: Sequence[str], visibility: str) -> dict[str, str]:
    """Return what is read, and by whom."""
    return {
        "output": printable("\n".join(lines)),
        "output_format": "text",
        "visibility": visibility,
    }


def _test(
    run: ReportedRun, command: CommandRecord, visibility: str, points: float
) -> dict[str, Any]:
    good = command.outcome is Outcome.OK
    lines = ["" if good else how(command), command.why, *_wrong(command)]
    lines += [fault_text(command), ending.figures(command.findings), run.tail(command)]
    scored = {
        "status": "passed" if good else "failed",
        "score": points if good else 0.0,
        "max_score": points,
    }
    return {
        "number": str(command.number),
        "name": printable(phrases.titled(command.name, command.text)),
        "name_format": "text",
        **({} if command.why in _NOT_MEANT else scored),
        **_text(list(filter(None, lines)), visibility),
    }


def _took(run: ReportedRun) -> float:
    record = run.record
    return max(0.0, (record.ended_at or record.created_at) - record.created_at)


def _leaderboard(run: ReportedRun) -> list[dict[str, Any]]:
    verdict = run.record.verdict
    if verdict is None or verdict.reason is not Reason.DONE:
        return []
    last: dict[str, float] = {}
    for name, value in reported_figures(run.record).items():
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


class _Case(Struct, frozen=True):
    """A test case; ``element`` is failure, error, skipped, or "" for a good end."""

    name: str
    group: str
    seconds: float = 0.0
    element: str = ""
    type: str = ""
    message: str = ""
    body: str = ""


def document(runs: Sequence[ReportedRun], failures: Sequence[Annotation] = ()) -> str:
    """Return the runs as one document, a suite each and a test case a command.

    A suite's properties are the run's figures; of repeated commands their medians.

    ``failures`` are problems that belong to no command: why nothing ran, a gate that
    failed. They are a suite of their own.
    """
    suites = Element("testsuites")
    for run in runs:
        _suite(suites, run)
    if failures:
        cases = [
            _Case(one.title, "rai", 0.0, "failure", "rai", one.title, one.text)
            for one in failures
        ]
        _add(suites, "rai", cases, [("failures", len(cases))])
    ElementTree.indent(suites, "")
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _suite(suites: Element, run: ReportedRun) -> None:
    record = run.record
    name = PurePath(record.project).name or "rai"
    cases = [
        _case(name, command, run.tail(command)) for command in ending.listed(record)
    ]
    verdict = record.verdict
    shown = any(case.element in ("failure", "error") for case in cases)
    if verdict and verdict.reason is not Reason.DONE and not shown:
        words = phrases.words(verdict.reason)
        body = f"{verdict.message}\n{verdict.advice}"
        reason = verdict.reason.value
        cases.append(_Case("run", name, 0.0, "error", reason, words, body))
    figures = reported_figures(record).items()
    found = [*_about(run), *((name, f"{value:.9g}") for name, value in figures)]
    _add(suites, name, cases, found, record)


def _about(run: ReportedRun) -> Iterator[tuple[str, str]]:
    """Yield what a run is of: its id, and what it ran on."""
    record = run.record
    about = {
        "run": record.id,
        "tag": run.tag,
        "reason": record.verdict and record.verdict.reason.value,
        "commit": record.git and record.git.commit,
        "engine": record.engine and record.engine.name,
        "image": record.image and record.image.reference,
        "gpu": record.gpu and ", ".join(gpu.name for gpu in record.gpu.gpus),
    }
    return ((name, value) for name, value in about.items() if value)


def _case(group: str, command: CommandRecord, tail: str) -> _Case:
    name = phrases.titled(command.name, command.text)
    name = f"{command.number}. {name}"[:LONGEST_NAME] + phrases.in_round(command)
    took = command.wall_s or 0.0
    ended = how(command)
    match command.outcome:
        case Outcome.OK:
            return _Case(name, group, took)
        case Outcome.SKIPPED:
            return _Case(name, group, took, "skipped", body=command.why)
        case Outcome.FAILED:
            kind = (command.reason or Reason.COMMAND_FAILED).value
            fault = fault_text(command)
            more = f"{fault}\n" if fault else ""
            return _Case(name, group, took, "failure", kind, ended, more + tail)
        case Outcome.WRONG:
            kind, message = Reason.WRONG_ANSWER.value, "; ".join(_wrong(command))
            return _Case(name, group, took, "failure", kind, message, tail)
        case _:
            return _Case(name, group, took, "error", ended, ended, tail)


def _add(
    suites: Element,
    name: str,
    cases: Sequence[_Case],
    properties: Sequence[tuple[str, object]],
    record: RunRecord | None = None,
) -> None:
    kinds = [case.element for case in cases]
    began = datetime.fromtimestamp(record.created_at if record else 0, UTC)
    machine = record.machine if record else None
    suite = _element(
        suites,
        "testsuite",
        id=str(len(suites)),
        package=name,
        name=name,
        timestamp=began.strftime("%Y-%m-%dT%H:%M:%S"),
        hostname=(machine.host if machine else "") or "unknown",
        tests=str(len(cases)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    about = _element(suite, "properties")
    for key, value in islice(properties, MOST_PROPERTIES):
        _element(about, "property", name=key, value=str(value))
    for case in cases:
        took = f"{case.seconds:.3f}"
        one = _element(
            suite, "testcase", classname=case.group, name=case.name, time=took
        )
        if case.element:
            why = {"type": case.type, "message": case.message}
            given = {key: value for key, value in why.items() if value}
            _element(one, case.element, **given).text = _allowed(case.body)
    _element(suite, "system-out")
    _element(suite, "system-err")


def _element(parent: Element, tag: str, /, **about: str) -> Element:
    given = {key: _allowed(value) for key, value in about.items()}
    return SubElement(parent, tag, given)


def _allowed(value: str) -> str:
    """Return a text in which what XML cannot hold is shown as its number."""
    return _FORBIDDEN.sub(lambda odd: ascii(odd.group())[1:-1], printable(value))
