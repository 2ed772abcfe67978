"""What `rai report` makes of runs, and where it goes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from runner.cli import common
from runner.core import Severity

if TYPE_CHECKING:
    from runner.core import RunRecord
    from runner.core.milestone import Milestone
    from runner.evidence import FoundEvidence
    from runner.report.blocks import Section
    from runner.report.diff import RunDiff
    from runner.report.document import Report
    from runner.store.paths import RunPaths
    from runner.store.settings import Settings

START_BYTES = 8 << 10
"""So much of a file tells whether it is a report."""

MARKS = ('<meta name="generator" content="rai">', "<!-- rai report -->", '"rai_report"')
"""What each form of a report has near its beginning."""


class ReportFormat(StrEnum):
    """The forms of a report; the value is the suffix of its file too."""

    HTML = "html"
    MD = "md"
    JSON = "json"


class ReportChoice(Struct, frozen=True):
    """What is asked for: the form, the most bytes as md, and a folder for pictures."""

    form: ReportFormat
    most_bytes: int
    pictures: Path | None = None


def choice(
    form: ReportFormat | None, output: Path | None, most: str, pictures: Path | None
) -> ReportChoice:
    """Return what the options ask for.

    Raises:
        UsageError: some are wrong, or contradict; carries all of these problems.
    """
    from runner.core import Problem
    from runner.core.errors import UsageError
    from runner.core.quantities import SIZE

    suffix = output.suffix.lower().removeprefix(".") if output else ""
    by_name = {"htm": ReportFormat.HTML, "markdown": ReportFormat.MD}
    named = by_name.get(suffix) or next((f for f in ReportFormat if f == suffix), None)
    found = form or named or ReportFormat.HTML
    most_bytes = SIZE.parse(most)
    problems = []
    if most_bytes is None:
        text = f"--size is {most!r}; expected {SIZE.words}"
        problems.append(Problem(text, hint="e.g. --size 64KiB"))
    if pictures is not None and found is not ReportFormat.MD:
        text = "--pictures is the folder of a report as md"
        hint = "a page of HTML has its pictures in it; add --format md"
        problems.append(Problem(text, hint=hint))
    if problems:
        raise UsageError(*problems)
    return ReportChoice(found, most_bytes or 0, pictures)


def target(
    form: ReportFormat, output: Path | None, runs: Sequence[RunPaths], *, as_file: bool
) -> Path | None:
    """Return the file of a report; None for stdout."""
    if output is not None:
        return output
    if form is not ReportFormat.HTML and not as_file:
        return None
    names = [paths.id for paths in runs[:2]]
    more = [f"and-{len(runs) - 2}-more"] if len(runs) > 2 else []
    return Path(f"{'-'.join(('report', *names, *more))}.{form}")


def check_target(path: Path, *, force: bool) -> None:
    """Refuse a file that cannot be written, or holds something else than a report.

    Raises:
        UsageError: with what to do about it.
    """
    from runner import files
    from runner.core import Problem
    from runner.core.errors import UsageError

    common.check_output(path, "-o")
    if force:
        return
    try:
        with files.opened(path, None) as file:
            start = file.read(START_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return
    if start and not any(mark in start for mark in MARKS):
        text = f"{path} is there already, and is no report"
        raise UsageError(Problem(text, hint="name another file, or give --force"))


def make_pictures(folder: Path) -> None:
    """Make the folder of pictures before any work is done.

    Raises:
        UsageError: it cannot be made, or not be written to.
    """
    from runner.core import Problem
    from runner.core.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"--pictures {folder}: it cannot be made: {error.strerror}"
        raise UsageError(Problem(text, hint="name another folder")) from error
    if not os.access(folder, os.W_OK):
        text = f"--pictures {folder}: the folder cannot be written"
        raise UsageError(Problem(text, hint="name another"))


def made(
    runs: Sequence[RunPaths],
    settings: Settings,
    names: Sequence[str],
    wanted: ReportChoice,
    beside: Path | None,
) -> str:
    """Return the text of a report; pictures of one as md are written to their folder.

    ``beside`` is the file of the report, which links to the pictures.
    """
    from runner.core.record import plain
    from runner.report import document

    records = [_record(paths) for paths in runs]
    found = [
        _evidence(paths, record, settings, timelines=wanted.form is ReportFormat.HTML)
        for paths, record in zip(runs, records, strict=True)
    ]
    report = document.report(
        [one.run for one in found],
        _milestones(records, names, settings),
        _comparison(runs, records),
    )
    if wanted.form is ReportFormat.JSON:
        return f"{common.json_text(plain(report))}\n"
    sections = document.sections(report)
    if wanted.form is ReportFormat.MD:
        from runner.markup import document as markdown

        links = _links(sections, wanted.pictures, beside)
        return markdown.page(title(report), sections, wanted.most_bytes, links)
    from runner import pages

    timelines = {
        f"{one.run.record.id}/{path}": timeline
        for one in found
        for path, timeline in one.timelines.items()
    }
    return pages.report(title(report), sections, _drawn(sections), timelines)


def _record(paths: RunPaths) -> RunRecord:
    from runner import places

    return places.record_of(paths)


def _evidence(
    paths: RunPaths, record: RunRecord, settings: Settings, *, timelines: bool
) -> FoundEvidence:
    from runner import evidence, places

    return evidence.read(paths, record, places.unseen(paths), timelines=timelines)


def _comparison(
    runs: Sequence[RunPaths], records: Sequence[RunRecord]
) -> RunDiff | None:
    """Return what changed between two runs, the earlier first."""
    if len(runs) != 2:
        return None
    from runner.report import diff
    from runner.store import sides

    old, new = sides.of(runs[0], runs[1], records[0], records[1])
    return diff.between(old, new)


def _milestones(
    records: Sequence[RunRecord], names: Sequence[str], settings: Settings
) -> list[Milestone]:
    """Return the milestones that are named, else those whose scripts the runs have.

    A file of a site's own that is wrong is left out, and told of.
    """
    from runner import milestones
    from runner.core.errors import ConfigError
    from runner.report.document import checklist

    folders = settings.milestones
    if names:
        return [milestones.find(name, folders) for name in dict.fromkeys(names)]
    found = []
    for name in milestones.names(folders):
        try:
            found.append(milestones.find(name, folders))
        except ConfigError as error:
            common.warn(error.problems)
    return checklist.concerning(found, records)


def title(report: Report) -> str:
    """Return the title of a report: its projects and its runs."""
    names = dict.fromkeys(PurePath(run.project).name for run in report.runs)
    runs = ", ".join(run.tag or run.run for run in report.runs)
    several = "runs" if len(report.runs) > 1 else "run"
    return f"{', '.join(names)}: {several} {runs}"


def _drawn(sections: Sequence[Section]) -> dict[str, str]:
    """Return the pictures of a report; without matplotlib none, and a warning.

    Tables stand in their place.
    """
    from runner import pictures
    from runner.report.document import charts

    try:
        return {one.name: pictures.svg(one.chart) for one in charts.pictures(sections)}
    except pictures.PicturesMissingError as error:
        common.warn(replace(p, severity=Severity.WARNING) for p in error.problems)
        return {}


def _links(
    sections: Sequence[Section], folder: Path | None, beside: Path | None
) -> dict[str, str]:
    """Write each picture to a folder; return the links to them, by their names."""
    if folder is None:
        return {}
    from runner import files, pictures
    from runner.report.document import charts

    links = {}
    start = beside.parent if beside else Path()
    for one in charts.pictures(sections):
        file = folder / f"{one.name}.svg"
        files.write(file, pictures.svg(one.chart).encode())
        links[one.name] = quote(Path(os.path.relpath(file, start)).as_posix())
    return links
