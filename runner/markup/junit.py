"""Runs as JUnit's XML, which CI systems read as the results of tests.

There is no one schema. What is written here holds for those of Jenkins (junit-10.xsd,
and the older junit-4.xsd) and, but for skipped commands, that of Ant's JUnit reports
(JUnit.xsd). So a suite has its properties first and the attributes that the last one
requires, and no test case has properties of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import PurePath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from msgspec import Struct

from runner import report
from runner.core import CommandRecord, Outcome, Reason, RunRecord
from runner.core.screen import printable
from runner.markup import reported
from runner.markup.reported import Annotation, ReportedRun, how

MOST_PROPERTIES = 2000
"""Figures of a run; what a profiler lists may be more."""

LONGEST_NAME = 500


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
        _case(name, command, run.tail(command)) for command in report.listed(record)
    ]
    verdict = record.verdict
    shown = any(case.element in ("failure", "error") for case in cases)
    if verdict and verdict.reason is not Reason.DONE and not shown:
        words = report.words(verdict.reason)
        body = f"{verdict.message}\n{verdict.advice}"
        reason = verdict.reason.value
        cases.append(_Case("run", name, 0.0, "error", reason, words, body))
    figures = reported.figures(record).items()
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
    name = report.titled(command.name, command.text)
    again = report.in_round(command)
    name = f"{command.number}. {name}"[:LONGEST_NAME] + again
    took = command.wall_s or 0.0
    ended = how(command)
    match command.outcome:
        case Outcome.OK:
            return _Case(name, group, took)
        case Outcome.SKIPPED:
            return _Case(name, group, took, "skipped", body=command.why)
        case Outcome.FAILED:
            kind = (command.reason or Reason.COMMAND_FAILED).value
            fault = command.findings.gpu_fault
            more = f"{fault.kind.words}: {fault.line}\n" if fault else ""
            return _Case(name, group, took, "failure", kind, ended, more + tail)
        case Outcome.WRONG:
            wrong = [report.mismatch(c) for c in command.checks if not c.holds]
            kind, message = Reason.WRONG_ANSWER.value, "; ".join(wrong)
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


_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What is outside the production Char of XML 1.0, section 2.2."""


def _allowed(value: str) -> str:
    """Return a text in which what XML cannot hold is shown as its number."""
    return _FORBIDDEN.sub(lambda odd: ascii(odd.group())[1:-1], printable(value))
