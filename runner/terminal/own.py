"""The terminal of the person who uses a shell in a run."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.screen import TerminalSize, unmarked

READ_BYTES = 4096
LEAVE = b"\x1d"
"""Ctrl-], which ends a shell that answers no other key."""

LEAVE_TIMES = 3
LEAVE_WITHIN_S = 1.0
USUAL_SIZE = TerminalSize(24, 80)

_STRING = r"(?:\x1b[\]PX^_k]|[\x90\x98\x9d\x9e\x9f])"
_SEQUENCE = re.compile(
    rf"{_STRING}[^\x07\x18\x1a\x1b\x9c]*(?:\x07|\x1b\\|\x9c|(?=[\x18\x1a\x1b])|\Z)"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[ -/]*[0-OQ-WYZ`-jl-~\\]"  # other escapes
    r"|[\x00-\x06\x0b\x10-\x1a\x1c-\x1f\x7f-\x9f]"  # other controls
    r"|\x1b"
)
_IN_STRING = r"[^\x07\x18\x1a\x1b\x90\x98\x9c-\x9f]"
"""Without what begins another string: else each beginning would be read to the end."""

_UNFINISHED = re.compile(
    rf"(?:{_STRING}{_IN_STRING}*\x1b?|\x1b\[[0-?]*[ -/]*|\x1b[ -/]*)\Z"
)
_LONGEST_HELD = 1 << 16

_CURSOR_AND_TEXT = re.compile(
    r"\x1b\[(?:"
    r"[0-9;]*[@A-HILMPSTXZ`adefgr]"  # move, insert, delete, scroll, margins
    r"|\??[0-9;]*[JK]"  # erase
    r"|[0-9;:]*m"  # colours
    r"|[su]"  # keep and restore the cursor
    r"|[0-9;]*b"  # repeat
    r"|[0-6]? q"  # the cursor's shape
    r"|!p"  # soft reset
    r")"
)
_ESCAPES = re.compile(r"\x1b(?:[78DEHMc=>]|[()*+][0AB])")
_SET_MODES = re.compile(r"\x1b\[(\??)([0-9;]*)([hl])")

_USUALLY_ON = frozenset({"?7", "?25"})
_MODES = _USUALLY_ON | {
    *("4", "20", "?1", "?5", "?6", "?47", "?66", "?69", "?1047", "?1049"),
    *("?1000", "?1002", "?1003", "?1004", "?1005", "?1006", "?1015"),
    *("?2004", "?2026"),
}
"""The modes that programs may set: insert, keys, screens, mouse, focus, paste."""

_RESET = "\x1bc"
_SCREENS = ("?1049", "?1047", "?47")
_USUAL_TEXT = "\x1b[0m\x1b(B\x0f"
"""No colours, and the usual letters."""

_UNDONE_BY = (
    (re.compile(r"\x1b\[[0-9;]*r"), "\x1b7\x1b[r\x1b8"),  # margins; it moves the cursor
    (re.compile(r"\x1b\[[0-6]? q"), "\x1b[0 q"),  # the cursor's shape
    (re.compile(r"\x1b="), "\x1b>"),  # the keypad
)


class OwnTerminal:
    """This process's terminal, which a program elsewhere uses while it is raw.

    ``in_use`` says that it is. Every key is a byte for that program. Its output is
    filtered: see ShellOutputFilter.
    """

    def __init__(self) -> None:
        """Raise UsageError if stdin or stdout is no terminal."""
        self._in, self._out = 0, 1
        for number, name in ((self._in, "stdin"), (self._out, "stdout")):
            if not os.isatty(number):
                text = f"rai shell needs a terminal, but {name} is not one"
                hint = "start it in a terminal; over ssh, with `ssh -t`"
                raise UsageError(Problem(text, hint=hint))
        self._filter = ShellOutputFilter()
        self._leaving: list[float] = []
        self._gone = False
        self.in_use = False

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass all keys on; bring the terminal back at every end."""
        before = termios.tcgetattr(self._in)
        resumed = signal.signal(signal.SIGCONT, self._resume)
        self.in_use = True
        try:
            tty.setraw(self._in)
            yield
        finally:
            self.in_use = False
            signal.signal(signal.SIGCONT, resumed)
            self._show(self._filter.restored())
            if not self._filter.at_line_start:
                self._show(b"\r\n")
            # The shell that comes next must not read what was typed for this one.
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSAFLUSH, before)

    def fileno(self) -> int:
        """Return stdin."""
        return self._in

    def read(self) -> bytes:
        """Return what was typed; b"" once the person left."""
        try:
            typed = os.read(self._in, READ_BYTES)
        except OSError:  # the terminal was closed
            return b""
        return b"" if self._leaves(typed) else typed

    def write(self, data: bytes) -> None:
        """Show output, filtered."""
        self._show(self._filter.feed(data))

    def size(self) -> TerminalSize:
        """Return the size as it is now."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return USUAL_SIZE
        return TerminalSize(found.lines, found.columns)

    def _leaves(self, typed: bytes) -> bool:
        """Whether Ctrl-] was pressed three times within a second."""
        if typed.strip(LEAVE):
            self._leaving.clear()
            return False
        now = time.monotonic()
        recent = [at for at in self._leaving if now - at < LEAVE_WITHIN_S]
        self._leaving = [*recent, *[now] * len(typed)]
        return len(self._leaving) >= LEAVE_TIMES

    def _show(self, data: bytes) -> None:
        if self._gone:
            return
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self._gone = True

    def _resume(self, number: int, frame: FrameType | None) -> None:
        """Be raw again after a stop; the shell that went on meanwhile was not."""
        with contextlib.suppress(termios.error):
            tty.setraw(self._in)


class ShellOutputFilter:
    """A filter that keeps the modes that were set, to set them back at the end.

    A sequence that is cut between two pieces is held until its end arrives.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._undo: dict[str, str] = {}
        self._dropping = False
        self.at_line_start = True

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of this piece and of what was held back."""
        text = self._held + unmarked(self._decoder.decode(data))
        if self._dropping:  # the rest of a string that was too long to hold
            end = re.search(r"[\x07\x18\x1a\x1b\x9c]", text)
            if end is None:
                return b""
            text, self._dropping = text[end.start() :].lstrip("\x07\x9c"), False
        cut = _UNFINISHED.search(text)
        self._held = text[cut.start() :] if cut else ""
        if cut:
            text = text[: cut.start()]
        if len(self._held) > _LONGEST_HELD:
            self._dropping, self._held = True, ""
        shown = _SEQUENCE.sub(self._kept, text)
        if shown:
            self.at_line_start = shown.endswith("\n")
        return shown.encode()

    def restored(self) -> bytes:
        """Return what brings the terminal back to its usual state."""
        if self._undo.keys() & set(_SCREENS):
            self.at_line_start = False  # the cursor is where it was on the other screen
        first = sorted(self._undo, key=lambda name: name not in _SCREENS)
        back = "".join(self._undo[name] for name in first)
        self._undo.clear()
        return (back + _USUAL_TEXT).encode()

    def _kept(self, match: re.Match[str]) -> str:
        sequence = match.group()
        if modes := _SET_MODES.fullmatch(sequence):
            private, numbers, last = modes.groups()
            names = [f"{private}{number}" for number in numbers.split(";")]
            kept = [name for name in names if name in _MODES]
            for name in kept:
                self._undo.pop(name, None)
                if (last == "h") != (name in _USUALLY_ON):
                    self._undo[name] = _set(name, name in _USUALLY_ON)
            return "".join(_set(name, last == "h") for name in kept)
        if sequence == _RESET:
            self._undo.clear()
        self._undo |= {b: b for kind, b in _UNDONE_BY if kind.fullmatch(sequence)}
        known = _CURSOR_AND_TEXT.fullmatch(sequence) or _ESCAPES.fullmatch(sequence)
        return sequence if known else ""


def _set(mode: str, on: bool) -> str:
    return f"\x1b[{mode}{'h' if on else 'l'}"
