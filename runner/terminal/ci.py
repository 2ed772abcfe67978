"""The log of a CI system: folded, annotated, and closed to what programs print.

On GitHub Actions a program could give the runner commands by printing them, and rai
quotes what projects and programs say in lines of its own. So nothing that rai shows is
read for commands but the few lines of `CiLog`: before and after each of them stands
``stop-commands`` with a token that nobody can guess.

GitHub reads ``::name key=value::text`` at the beginning of a line and, in the older
form, ``##[name key=value]text`` anywhere in it, on stdout and stderr alike
(actions/runner, ActionCommand.cs). After ``::stop-commands::TOKEN`` it reads neither,
up to the line ``::TOKEN::``, whatever stands between (ActionCommandManager.cs).

The runner reads stdout and stderr as two pipes, takes what waits in stderr first, and
keeps one state for both (ProcessInvoker.cs and ScriptHandler.cs). So the order across
them is lost, and with it what a token encloses: all goes into one.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from runner.core import Severity
from runner.core import events as ev
from runner.core.screen import printable
from runner.figures.table import one_line
from runner.report.reported import Annotation
from runner.terminal import messages
from runner.terminal.console import Console
from runner.terminal.streams import Cursor, Sink

MOST_ANNOTATIONS = 10
"""Of each kind GitHub keeps so many a step, no more (ExecutionContext.cs)."""

LONGEST_MESSAGE = 4000
"""Characters; GitHub cuts messages of more than 4096 (ExecutionContext.cs)."""

LONGEST_TITLE = 200


class CiSystem(StrEnum):
    """The CI systems whose logs can be folded, and all others."""

    GITHUB = "github"
    GITLAB = "gitlab"
    OTHER = "other"


def system(environ: Mapping[str, str]) -> CiSystem:
    """Return the CI system that an environment is of."""
    names = {"GITHUB_ACTIONS": CiSystem.GITHUB, "GITLAB_CI": CiSystem.GITLAB}
    there = (name for name in names if environ.get(name, "").lower() == "true")
    return names.get(next(there, ""), CiSystem.OTHER)


class CiLog:
    """Writes what a CI system reads to stderr, in one order with all that is shown."""

    def __init__(self, system: CiSystem, *, answer: bool = False) -> None:
        """``answer`` tells that stdout has what another program reads.

        Otherwise, on GitHub, stdout and stderr become one, unless stdout is a file.
        """
        self.system = system
        self.cursor = Cursor()
        self.one_stream = system is CiSystem.GITHUB and not answer and _is_log()
        if self.one_stream:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
        _OPEN.append(self)
        self._sink = Sink(sys.stderr)
        self._token = ""
        self._folds = 0
        self._folded = ""
        self._counts: dict[Severity, int] = {}
        if system is CiSystem.GITHUB:
            # From here it reads nothing, up to a line that only this process knows.
            self._token = secrets.token_hex(16)
            self._write(command("stop-commands", self._token))

    def fold(self, title: str) -> None:
        """Begin a group of lines that is shown folded, and end the one before."""
        self.unfold()
        self._folds += 1
        self._folded = f"rai_{self._folds}"
        if self.system is CiSystem.GITHUB:
            self._tell(group(title))
        elif self.system is CiSystem.GITLAB:
            self._write(section("start", self._folded, title))

    def unfold(self) -> None:
        """End the group, if there is one."""
        name, self._folded = self._folded, ""
        if name and self.system is CiSystem.GITHUB:
            self._tell(command("endgroup"))
        elif name and self.system is CiSystem.GITLAB:
            self._write(section("end", name))

    def annotate(self, *found: Annotation) -> None:
        """Show annotations on GitHub, as many as it keeps, outside of any group."""
        self.unfold()
        if self.system is not CiSystem.GITHUB:
            return
        lines = ""
        for one in found:
            count = self._counts[one.severity] = self._counts.get(one.severity, 0) + 1
            if count == MOST_ANNOTATIONS and len(found) > 1:
                one = Annotation("rai", "There are more in the log.", one.severity)
            if count <= MOST_ANNOTATIONS:
                lines += annotation(one, _file(one))
        if lines:
            self._tell(lines)

    def end(self) -> None:
        """End the group, and let the CI system read what others print after this."""
        self.unfold()
        with suppress(OSError):
            sys.stdout.flush()
        if self._token:
            self._write(command(self._token))
            self._token = ""

    def _tell(self, lines: str) -> None:
        """Have GitHub read some lines, all in one write: nothing comes between."""
        before, self._token = self._token, secrets.token_hex(16)
        after = command("stop-commands", self._token)
        self._write(command(before) + lines + after)

    def _write(self, text: str) -> None:
        begin = "" if self.cursor.at_line_start else "\n"
        self.cursor.at_line_start = True
        self._sink.own(begin + text)


def command(name: str, value: str = "", **properties: str) -> str:
    """Return one of GitHub's commands as a line; properties that are "" are left out.

    ``%``, CR and LF are escaped in the text, and ``:`` and ``,`` in properties too, as
    GitHub's own toolkit does (actions/toolkit, command.ts).
    """
    given = [f"{key}={_property(v)}" for key, v in properties.items() if v]
    about = f" {','.join(given)}" if given else ""
    return f"::{name}{about}::{_data(value)}\n"


def annotation(found: Annotation, file: str = "") -> str:
    """Return an annotation as a command; ``file`` names its file as GitHub needs it."""
    place = found.place if file else None
    return command(
        found.severity.value,
        _cut(found.text, LONGEST_MESSAGE),
        file=file,
        line=str(place.line) if place else "",
        col=str(place.column) if place else "",
        title=_cut(found.title, LONGEST_TITLE),
    )


def group(title: str) -> str:
    """Return the command that begins a group, which is shown folded."""
    return command("group", _cut(" ".join(title.split()), LONGEST_TITLE))


def section(edge: str, name: str, title: str = "") -> str:
    """Return the marker of a section's start or end in GitLab's log."""
    shown = _cut(" ".join(printable(title).split()), LONGEST_TITLE)
    return f"\x1b[0Ksection_{edge}:{int(time.time())}:{name}\r\x1b[0K{shown}\n"


def _data(value: str) -> str:
    # The page of a log formats what it finds behind this sign, wherever it stands.
    escaped = printable(value).replace("##[", r"##\[").replace("%", "%25")
    return escaped.replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")


def _cut(value: str, most: int) -> str:
    return value if len(value) <= most else value[: most - 1] + "…"


class CiConsole(Console):
    """Shows a run in the log of a CI system: its image and each command are folded."""

    def __init__(self, log: CiLog, quiet: bool = False, **asked: bool) -> None:
        super().__init__(quiet, filtered=log.system is not CiSystem.OTHER, **asked)
        self._log, self._live = log, None
        log.cursor = self._cursor
        if log.system is CiSystem.GITHUB:
            plain = PlainText()
            for sink in {self._own, *self._sinks.values()}:
                sink.rewrite = plain.feed

    def show(self, event: ev.Event, at: float | None = None) -> None:
        """Show one event, in its group."""
        if isinstance(event, (ev.CommandFinished, ev.ImageReady, ev.Finished)):
            self._log.unfold()
        elif title := _title(event, self._count):
            self._show_skipped(event)
            self._log.fold(title)
        super().show(event, at)


class PlainText:
    """Keeps GitHub's page of a log from reading ``##[group]`` and the like in it.

    The page formats such lines wherever they come from. All streams of a log pass one
    of these, as what a line begins may come from one and its rest from another.
    """

    def __init__(self) -> None:
        self._last = b""

    def feed(self, data: bytes) -> bytes:
        r"""Return the next piece with ``##\[`` in place of ``##[``."""
        before = self._last
        shown = (before + data).replace(b"##[", b"##\\[")[len(before) :]
        self._last = (before + data)[-2:]
        return shown


def _title(event: ev.Event, count: int) -> str:
    """Return the title of the group that an event begins; "" if it begins none."""
    match event:
        case ev.BuildStarted(reference):
            return f"Building image {reference}"
        case ev.PullStarted(reference):
            return f"Pulling {reference}"
        case ev.CommandStarted(index, text, name, None):
            return f"{messages.numbered(index, count)}: {name or one_line(text)}"
        case _:
            return ""


def _is_log() -> bool:
    """Whether stdout is a pipe or a terminal, which the CI system may read."""
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(1)


def _file(found: Annotation) -> str:
    """Return the path of an annotation's file; within the checkout if it is there."""
    if found.place is None:
        return ""
    path = Path(found.place.file).resolve()
    root = os.environ.get("GITHUB_WORKSPACE", "")
    inside = root and path.is_relative_to(Path(root).resolve())
    return str(path.relative_to(Path(root).resolve()) if inside else path)


_OPEN: list[CiLog] = []
"""The log of this process, if it has one."""


def end() -> None:
    """Close the log of this process, if there is one: the last that it prints."""
    while _OPEN:
        _OPEN.pop().end()
