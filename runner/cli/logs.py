"""`rai logs RUN [-f] [-n N] [--since TIME] [--command N|NAME] [--timestamps]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from runner.cli import common
from runner.core import Stream, quantities
from runner.core.errors import UsageError
from runner.execution import places
from runner.execution.local import Following
from runner.execution.project import MOST_BYTES
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
    new = partial(_pieces, excerpt, set() if timestamps else None)
    if as_json:
        new = partial(_lines, excerpt)
    with places.followed([paths] if follow else []) as followers:
        _print(new, paths, followers, follow=follow)


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


def _pieces(
    excerpt: Excerpt, inside: set[Stream] | None
) -> Iterator[tuple[Stream, bytes]]:
    """Yield the output that was not yet yielded, of which streams.

    With ``inside``, the streams whose last line has not ended, the time stands before
    each line.
    """
    for piece in excerpt.pieces():
        stamped = piece.data if inside is None else _stamped(piece, inside)
        yield piece.stream, stamped


def _stamped(piece: Chunk, inside: set[Stream]) -> bytes:
    """Put the time before each line that begins in a piece."""
    at = datetime.fromtimestamp(piece.at).astimezone()
    stamp = at.isoformat(timespec="milliseconds").encode() + b" "
    first = b"" if piece.stream in inside else stamp
    if piece.data.endswith(b"\n"):
        inside.discard(piece.stream)
    else:
        inside.add(piece.stream)
    body, last = piece.data[:-1], piece.data[-1:]
    return first + body.replace(b"\n", b"\n" + stamp) + last


def _lines(excerpt: Excerpt) -> Iterator[tuple[Stream, bytes]]:
    """Yield the events that were not yet yielded, one JSON line each."""
    return ((Stream.STDOUT, line) for line in excerpt.lines())


def _print(
    new: Callable[[], Iterator[tuple[Stream, bytes]]],
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
        for stream, data in new():
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
            if one.trouble and not trouble:
                lost = f"The connection is lost ({one.trouble}); trying again."
                say(f"{lost} The run goes on.", to_stderr=True)
            trouble = one.trouble
        time.sleep(POLL_S)
