"""Turn a program's output into clean lines: no escapes, and what a return left.

A carriage return begins its line anew, so a progress bar leaves its last state.
Memory is bounded, and time is linear in the bytes, whatever they are.
"""

from __future__ import annotations

import re

LINE_LIMIT = 32 * 1024
"""The number of bytes of a line that are sure to be read; the rest may be dropped."""

# A sequence never crosses a line end; one that is longer than any real one is text.
_CONTROL = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, the cursor
    rb"|[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # OSC and other strings
    rb"|[ -/]{0,8}[0-~])?"  # short escapes
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]+"
)
_RETURNED = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n])")
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F), *range(0x80, 0x100)])
_BOM = b"\xef\xbb\xbf"


class LineReader:
    """A reader of output in pieces; a line may come in many of them."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """Read a piece; return the lines that it completes, each with its end."""
        if not self._begun and len(data) >= len(_BOM):
            data, self._begun = data.removeprefix(_BOM), True
        whole, end, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > LINE_LIMIT:
            begun = rest.rfind(b"\r", 0, -2) + 1
            rest = rest[begun : begun + 2 * LINE_LIMIT]
        self._rest = rest
        return clean(whole + end)

    def finish(self) -> bytes:
        """Return the last line, if it has no line end."""
        last, self._rest = self._rest, b""
        return clean(last)


def clean(lines: bytes) -> bytes:
    """Return whole lines without escapes, and without what they were written over."""
    if not lines.translate(None, _PLAIN):
        return lines
    lines = _CONTROL.sub(b"", lines)
    if b"\r" in lines:
        lines = _RETURNED.sub(b"", lines).replace(b"\r", b"")
    return lines
