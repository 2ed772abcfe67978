"""`rai logs RUN [-f] [-n N] [--since TIME] [--command N|NAME] [--timestamps]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer

from runner.cli import common
from runner.core import Stream, quantities
from runner.core.errors import UsageError
from runner.run import places
from runner.run.local import Following
from runner.run.project import MOST_BYTES
from runner.spec import buildfile
from runner.store.excerpt import Chunk, Excerpt, Part
from runner.store.paths import RunPaths
from runner.system import files
from runner.terminal.streams import Sink, say, unwritten

POLL_S = 0.2


def logs(
    run: common.RunOrLatest = "latest",
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow the output until the run ends."),
    ] = False,
    lines: Annotated[
        int | None,
        typer.Option("-n", "--lines", metavar="N", min=0, help="The last N lines."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="What was printed since then: `5m` (ago), `14:05`, a date with or"
            " without a time of day.",
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|N",
            help="The output of this command, repeats too: its number, its name, or a"
            " word of it. Repeatable.",
        ),
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="The time before each line.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """Print the output of a run's commands.

    Their stdout goes to stdout and their stderr to stderr, byte by byte; a terminal
    gets text and colours only. -n counts the lines of both together. With --json the
    run's events are printed, one JSON line each, and -n counts them.
    """
    paths = common.find_run(run, fresh=not follow)
    part = Part(
        lines,
        _since(since) if since else 0.0,
        _commands(paths, command) if command else None,
    )
    excerpt = Excerpt(paths, part)
    shown = _Events(excerpt) if as_json else _Text(excerpt, timestamps=timestamps)
    with places.followed([paths] if follow else []) as followers:
        _print(shown, paths, followers, follow=follow)


def _since(text: str) -> float:
    found = quantities.moment(text, datetime.now().astimezone())
    if found is None:
        raise UsageError(f"--since {text!r} is not a time: {quantities.MOMENTS}")
    return found


def _commands(paths: RunPaths, words: Sequence[str]) -> frozenset[int]:
    try:
        raw = files.read_below(paths.root, paths.spec.name, MOST_BYTES)
    except OSError as error:
        why = f"cannot read the run's build file {paths.spec}: {error.strerror}"
        raise UsageError(why) from error
    file = str(paths.spec)
    spec, _ = buildfile.parse(buildfile.decode(raw, file), file)
    return buildfile.chosen(spec.commands, words, "--command")


class _Text:
    """The output itself, if wanted with the time before each line."""

    def __init__(self, excerpt: Excerpt, *, timestamps: bool) -> None:
        self._excerpt, self._timestamps = excerpt, timestamps
        self._inside: set[Stream] = set()
        """Streams whose last line has not ended."""

    def new(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield what was not yet yielded."""
        for piece in self._excerpt.pieces():
            yield piece.stream, self._stamped(piece) if self._timestamps else piece.data

    def _stamped(self, piece: Chunk) -> bytes:
        """Put the time before each line that begins in a piece."""
        at = datetime.fromtimestamp(piece.at).astimezone()
        stamp = at.isoformat(timespec="milliseconds").encode() + b" "
        first = b"" if piece.stream in self._inside else stamp
        if piece.data.endswith(b"\n"):
            self._inside.discard(piece.stream)
        else:
            self._inside.add(piece.stream)
        body, last = piece.data[:-1], piece.data[-1:]
        return first + body.replace(b"\n", b"\n" + stamp) + last


class _Events:
    """The events, one JSON line each, on stdout."""

    def __init__(self, excerpt: Excerpt) -> None:
        self._excerpt = excerpt

    def new(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield what was not yet yielded."""
        return ((Stream.STDOUT, line) for line in self._excerpt.lines())


def _print(
    shown: _Text | _Events,
    paths: RunPaths,
    followers: Sequence[Following],
    *,
    follow: bool,
) -> None:
    trouble = ""
    sinks = {Stream.STDOUT: Sink(sys.stdout), Stream.STDERR: Sink(sys.stderr)}
    while True:
        # Checked before reading, so as not to miss the last output of the run.
        over = not follow or not places.active(paths)
        for stream, data in shown.new():
            try:
                sinks[stream].put(data)
            except BrokenPipeError:
                raise
            except OSError as error:
                raise unwritten(error, sinks[stream].stream) from error
        if over:
            return
        for one in followers:
            one.check()
            trouble = _told(trouble, one.trouble)
        time.sleep(POLL_S)


def _told(before: str, now: str) -> str:
    """Print on stderr that a server is lost; return its trouble."""
    if now and not before:
        text = f"The connection is lost ({now}); trying again. The run goes on."
        say(text, to_stderr=True)
    return now
