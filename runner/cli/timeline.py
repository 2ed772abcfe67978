"""`rai timeline RUN [FILE]`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from runner import pack
from runner.cli import common
from runner.core import Limits, Problem, RunRecord
from runner.core.errors import UsageError
from runner.execution import places
from runner.figures import traces
from runner.report.evidence import BuildFiles
from runner.store import outputs as kept
from runner.store.home import find
from runner.store.paths import Home, RunPaths
from runner.system import files
from runner.terminal import browser
from runner.terminal.streams import say

MOST = 200_000
"""Spans of a page, which then has about 1.5 MB; a report shows fewer."""

_SUFFIXES = (".json", ".json.gz", ".nvprof", ".sqlite")

_HINT = (
    "write one to the build folder: `nvprof -o FILE.nvprof`, `nsys profile --export"
    " sqlite`, or a Chrome trace called trace.json"
)


def timeline(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run's id, its beginning, its tag, or `latest`; or a profiler's file"
            " on this machine.",
        ),
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="The file in the run's build folder; needed if there are several.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the page; open nothing."
        ),
    ] = None,
) -> None:
    """Show in a browser what a profiler recorded over time.

    The page has copies, kernels and API calls by stream, thread and process, to zoom,
    pan and search. It is one HTML file, which needs no network. Read are the SQLite
    files of nvprof (`nvprof -o FILE.nvprof`) and nsys (`--export sqlite`), and trace
    events in JSON, such as PyTorch's `export_chrome_trace("trace.json")`.
    """
    from runner.report import page as pages

    if output is not None:
        common.check_output(output, "-o")
    home = common.home()
    with _chosen(home, run, file) as (path, title):
        page = pages.timeline_page(title, traces.timeline(path, MOST))
    if output is not None:
        files.write(output, page.encode())
        say(f"Wrote {output}.")
        return
    written = kept.keep_page(home, "timeline", page)
    say(f"Wrote {written}, which is kept for a day; -o FILE keeps a page.")
    browser.show(written)


@contextmanager
def _chosen(home: Home, run: str, file: str | None) -> Iterator[tuple[Path, str]]:
    """Yield the profiler's file that is meant, and a title for it."""
    if file is None and Path(run).is_file() and not _names_run(home, run):
        yield Path(run).absolute(), Path(run).name
        return

    if file is None and ("/" in run or run.endswith(_SUFFIXES)):
        text = f"{run} is no file of this machine"
        hint = "of a run's file: rai timeline RUN FILE"
        raise UsageError(Problem(text, hint=hint))
    paths = find(home, run)
    record = places.record_of(paths)
    if not paths.build.exists():
        raise UsageError(common.no_build_folder(record))
    caps = pack.build_caps(record.limits or Limits())
    name = _name(paths, record, file, list(pack.files(paths.build, caps, "build")))
    with TemporaryDirectory(prefix="rai-timeline-") as folder:
        into = Path(folder)
        pack.pick(paths.build, into, lambda one, _: one == name, caps, "build")
        yield into / name, f"{name} of run {paths.id}"


def _names_run(home: Home, text: str) -> bool:
    """Whether a word names a run: a project may have a file called `latest`."""
    if "/" in text or text.endswith(_SUFFIXES):
        return False
    try:
        find(home, text)
    except UsageError:
        return False
    return True


def _name(
    paths: RunPaths, record: RunRecord, file: str | None, there: list[str]
) -> str:
    """Return the name of the file in the build folder.

    Raises:
        UsageError: there is none, not the one that is named, or several.
    """
    a_trace = BuildFiles(record).is_trace
    found = sorted(filter(a_trace, there))
    if file is not None:
        wanted = posixpath.normpath(file.removeprefix("/build/"))
        if wanted in there:
            return wanted
        raise UsageError(_listed(f"run {paths.id} has no file {file}", paths, found))
    if len(found) == 1:
        return found[0]
    if found:
        text = f"run {paths.id} has {len(found)} profiles"
        raise UsageError(_listed(text, paths, found))
    raise UsageError(_none(paths, record))


def _listed(text: str, paths: RunPaths, found: list[str]) -> Problem:
    if not found:
        return Problem(text, hint="it has no profile at all")
    names = ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")
    return Problem(text, hint=f"name one of them: {names}")


def _none(paths: RunPaths, record: RunRecord) -> Problem:
    text = f"run {paths.id} has no profile that rai reads over time"
    unread = [
        one.path
        for command in record.commands
        for one in command.profile_files
        if one.path.endswith((".nsys-rep", ".qdrep"))
    ]
    if unread:
        hint = f"have the run export it: nsys export --type sqlite {unread[0]}"
        return Problem(f"{text}; {unread[0]} is in nsys's own format", hint=hint)
    return Problem(text, hint=_HINT)
