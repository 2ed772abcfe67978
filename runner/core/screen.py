"""Filter a program's output for a terminal."""

from __future__ import annotations

import re

_COLOUR = rb"\x1b\[[0-9;:]*m"
_CONTROL = (
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: cursor, modes, colours
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and other strings
    rb"|\x1b[ -/]*[0-OQ-WYZ`-~\\]"  # two-byte escapes
    rb"|\xc2[\x80-\x9f]"  # C1 controls in UTF-8
    rb"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"  # C0 but BS, TAB, LF, CR, ESC
    rb"|\x1b"
)
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNFINISHED = rb"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?|\xc2)\Z"
_LONGEST_HELD = 4096


class TerminalFilter:
    """A filter that passes text, colours, carriage returns and backspaces only.

    A sequence that is cut between two pieces is held until its end arrives.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of this piece and of what was held back."""
        data = self._held + data
        cut = re.search(_UNFINISHED, data)
        if cut is not None and len(data) - cut.start() <= _LONGEST_HELD:
            data, self._held = data[: cut.start()], data[cut.start() :]
        else:
            self._held = b""
        return re.sub(_CONTROL, _kept, data)


def printable(text: str) -> str:
    """Return an untrusted text without control characters."""
    return _STEERING.sub("", text)


def uncoloured(text: str) -> str:
    """Return a text without its colours."""
    return re.sub(_COLOUR, b"", text.encode()).decode()


def _kept(match: re.Match[bytes]) -> bytes:
    sequence = match.group()
    return sequence if re.fullmatch(_COLOUR, sequence) else b""
