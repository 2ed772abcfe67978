"""Filter what a shell prints for the terminal of the person who uses it.

Full-screen programs work: the cursor, colours, the alternate screen, mouse and paste
modes. What steers the terminal itself does not pass: its title, clipboard, windows,
printer, links and pictures, and each question that it would answer by typing. rai's
mark is shown as its number, as in a run's output.
"""

from __future__ import annotations

import codecs
import re

from runner.core.screen import unmarked

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


class ShellOutputFilter:
    """A filter that keeps the modes that were set, to set them back at the end.

    A sequence that is cut between two pieces is held until its end arrives.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._changed: dict[str, bool] = {}
        self._undo: set[str] = set()
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
        changed = [mode for mode, on in self._changed.items() if on != _usual(mode)]
        changed.sort(key=lambda mode: mode not in _SCREENS)  # first, then the cursor
        back = "".join(_set(mode, _usual(mode)) for mode in changed)
        if self._changed.keys() & set(_SCREENS):
            self.at_line_start = False  # the cursor is where it was on the other screen
        back += "".join(sorted(self._undo))
        self._changed.clear()
        self._undo.clear()
        return (back + _USUAL_TEXT).encode()

    def _kept(self, match: re.Match[str]) -> str:
        sequence = match.group()
        if modes := _SET_MODES.fullmatch(sequence):
            private, numbers, last = modes.groups()
            names = [f"{private}{number}" for number in numbers.split(";")]
            kept = [name for name in names if name in _MODES]
            self._changed.update(dict.fromkeys(kept, last == "h"))
            return "".join(_set(name, last == "h") for name in kept)
        if sequence == _RESET:
            self._changed.clear()
        self._undo |= {back for kind, back in _UNDONE_BY if kind.fullmatch(sequence)}
        known = _CURSOR_AND_TEXT.fullmatch(sequence) or _ESCAPES.fullmatch(sequence)
        return sequence if known else ""


def _usual(mode: str) -> bool:
    return mode in _USUALLY_ON


def _set(mode: str, on: bool) -> str:
    return f"\x1b[{mode}{'h' if on else 'l'}"
