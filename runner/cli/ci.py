"""What a CI system gets of a command: `--ci`, `--junit`, annotations, a summary.

    with ci.session(given, junit) as reported:
        console = reported.console(quiet)
        ...
        reported.ended(run.paths, run.record, places)

`rai run` and others that make or compare runs share it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.core import Outcome, Place, Problem, RunRecord, Severity, screen
from runner.core.errors import RaiError
from runner.figures.gate import GateOutcome
from runner.report import blocks as report_blocks
from runner.report import phrases
from runner.store import run_files
from runner.store.paths import RunPaths
from runner.system import files
from runner.terminal import streams

if TYPE_CHECKING:
    from runner.report.markdown import Conclusion
    from runner.report.reported import Annotation, ReportedRun
    from runner.terminal.ci import CiLog
    from runner.terminal.console import Console

Ci = Annotated[
    bool | None,
    typer.Option(
        "--ci/--no-ci",
        help="Write for a CI system's log.  [default: as CI=true says]",
        show_default=False,
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the results as JUnit XML."),
]
SUMMARY = "GITHUB_STEP_SUMMARY"
GRACE_S = 4.0
"""How long commands may live after SIGTERM, as CI systems kill rai after 7.5 s."""

NO_PLACES: Mapping[int, Place | None] = {}


def wanted(given: bool | None, environ: Mapping[str, str]) -> bool:
    """Whether a command writes for a CI system: by its option, else by ``CI``."""
    if given is not None:
        return given
    return environ.get("CI", "").lower() not in ("", "0", "false")


def grace_s(given: bool | None) -> float | None:
    """Return how long commands may live after SIGTERM in CI; None elsewhere."""
    return GRACE_S if wanted(given, os.environ) else None


@contextmanager
def session(
    given: bool | None,
    junit: Path | None = None,
    *,
    answer: bool = False,
    gradescope: Path | None = None,
) -> Iterator[CiSession]:
    """Yield what collects the runs of a command; tell of them all at its end.

    ``answer`` tells that stdout has what another program reads, such as JSON. The log
    that it opens is closed by the process's end, after the last message.

    Raises:
        UsageError: the file of ``junit`` or ``gradescope`` cannot be written.
    """
    for file, option in ((junit, "--junit"), (gradescope, "--gradescope")):
        if file is not None:
            common.check_output(file, option)
    log = None
    if wanted(given, os.environ):
        from runner.system.machine import end_with_parent
        from runner.terminal import ci

        log = ci.CiLog(ci.system(os.environ), answer=answer)
        if log.system is ci.CiSystem.GITHUB:
            end_with_parent()
    reported = CiSession(log, junit, gradescope)

    try:
        yield reported
    except RaiError as error:
        reported.refused(error)
        raise
    finally:
        reported.write()


class CiSession:
    """What a command tells a CI system; without one, and without a file, nothing."""

    def __init__(
        self, log: CiLog | None, junit: Path | None, gradescope: Path | None = None
    ) -> None:
        self._log, self._junit, self._gradescope = log, junit, gradescope
        self.grade: dict[str, object] | None = None
        """The values of Gradescope's file; without them the score is 0."""
        self._runs: list[ReportedRun] = []
        self._failures: list[Annotation] = []
        self._gate: list[Annotation] = []
        self._concluded: list[Conclusion] = []

    @property
    def on(self) -> bool:
        """Whether the command writes for a CI system."""
        return self._log is not None

    def console(self, quiet: bool = False, **asked: bool) -> Console:
        """Return what shows a run: in groups, if this is a CI system's log."""
        from runner.terminal.console import Console

        if self._log is None:
            return Console(quiet, **asked)
        from runner.terminal.ci import CiConsole

        return CiConsole(self._log, quiet, **asked)

    def warn(self, problems: Iterable[Problem]) -> None:
        """Print warnings on stderr, and annotate their places."""
        from runner.report.reported import of_problem

        found = list(problems)
        streams.problems(found)
        if self._log is not None:
            self._log.annotate(*(of_problem(one, "rai") for one in found))

    def ended(
        self,
        paths: RunPaths,
        record: RunRecord,
        places: Mapping[int, Place | None] = NO_PLACES,
    ) -> None:
        """Take in a run that has ended, and annotate what went wrong in it.

        ``places`` says by index where in the build file a command stands.
        """
        if not (self._log or self._junit or self._gradescope):
            return
        from runner.report.reported import of_record

        self._runs.append(of_run(paths, record))
        if self._log is not None:
            self._log.annotate(*of_record(record, places))

    def concluded(
        self,
        title: str,
        blocks: Sequence[report_blocks.Block],
        gate: GateOutcome | None = None,
    ) -> None:
        """Head the summary with a comparison, and annotate what its gate failed."""
        from runner.report.markdown import Conclusion
        from runner.report.reported import Annotation

        self._concluded.append(Conclusion(title, tuple(blocks)))
        failed = gate.failed if gate else ()
        self._fail(self._gate, [Annotation("rai: gate", text) for text in failed])

    def failed(self, title: str, sentences: Iterable[str]) -> None:
        """Take in what failed beside the runs, and annotate it."""
        from runner.report.reported import Annotation

        self._fail(self._failures, [Annotation(title, text) for text in sentences])

    def refused(self, error: RaiError) -> None:
        """Take in why the command ended before its time."""
        from runner.report.reported import of_problem

        title = f"rai: {phrases.words(error.reason)}"
        found = [of_problem(problem, title) for problem in error.problems]
        self._fail(self._failures, found)

    def _fail(self, known: list[Annotation], found: list[Annotation]) -> None:
        known += found
        if self._log is not None:
            self._log.annotate(*found)

    def write(self) -> None:
        """Write the summary and the files; say what cannot be written."""
        if self._gradescope is not None:
            self._write_grade(self._gradescope)
        if not (self._runs or self._failures or self._concluded):
            return
        from runner.report import exports

        every = (*self._failures, *self._gate)
        errors = [one for one in every if one.severity is Severity.ERROR]
        try:
            if self._log is not None and (path := os.environ.get(SUMMARY)):
                self._summarize(Path(path))
            if self._junit is not None:
                text = exports.document(self._runs, errors)
                files.write(self._junit, text.encode())
        except OSError as error:
            streams.problems([files.problem(error)])

    def _write_grade(self, path: Path) -> None:
        from runner.report.exports import submission

        why = [one.text for one in self._failures] or ["It ended without a verdict."]
        grade = self.grade or submission(why, 0.0)
        last = self._runs[-1].tails.values() if self._runs else ()
        grade["output"] = "\n".join((str(grade["output"]), *last))
        try:
            files.write(path, screen.json_bytes(grade))
        except OSError as error:
            streams.problems([files.problem(error)])

    def _summarize(self, path: Path) -> None:
        from runner.report.markdown import summary

        with files.naming(path), files.appended(path) as file:
            there = file.tell()
            page = summary(self._runs, self._failures, self._concluded, there=there)
            file.write(page.encode())


def of_run(paths: RunPaths, record: RunRecord) -> ReportedRun:
    """Return a run with its tag, and the ends of what its failed commands printed."""
    from runner.report import reported
    from runner.store.excerpt import last_output

    good = (Outcome.OK, Outcome.SKIPPED)
    failed = [c.index for c in record.commands if c.outcome not in good]
    tails = {}
    for index in failed[: reported.MOST_TAILS]:
        with suppress(OSError, RaiError):  # a damaged log is no reason to say nothing
            data, whole = last_output(paths, index, reported.TAIL_BYTES)
            tails[index] = reported.readable(data, whole=whole)
    return reported.ReportedRun(record, run_files.read_tag(paths), tails)
