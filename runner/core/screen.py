"""Text that is not trusted, made safe for a terminal and for JSON."""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec
from msgspec import Struct

MARK = "✱"
"""What each of rai's own lines begins with. No program's output shows it."""

COLOUR = rb"\x1b\[[0-9;:]*m"
"""A sequence of a terminal that sets colours, or ends them."""
_SILENT = bytes({*range(0x20), 0x7F} - {*b"\a\b\t\n\r\x1b"})
"""Controls that are dropped wherever they are. A bell may end a sequence."""
_DROPPED = re.compile(  # begins with a set of bytes, which the search skips to
    rb"[\x07\x1b\xc2]"
    rb"(?:(?<=\x1b)(?!\[[0-9;:]*m)(?:"  # a colour stays
    rb"\x1b*(?=\x1b)"  # all but the last of several
    rb"|\[[0-?]*[ -/]*[@-~]"  # CSI: cursor, modes
    rb"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and other strings
    rb"|[ -/]*[0-OQ-WYZ`-~\\])?"  # two-byte escapes
    rb"|(?<=\xc2)[\x80-\x9f]"  # C1 controls in UTF-8
    rb"|(?<=\x07)\x07*)"
)
_INCOMPLETE = rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})"
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_OPEN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")
_CUT = re.compile(_INCOMPLETE + rb"\Z")
_LONGEST_HELD = 4096
_HARMLESS = b"\b\t\n\r" + bytes(range(0x20, 0x7F))
_HIGH = bytes(range(0x80, 0x100))

_SHOWN_AS_NUMBERS = re.compile(
    rb"(?:\xe2(?:\x9c\xb1|\x80[\xaa-\xae]|\x81[\xa6-\xa9]))+"
)
"""The mark, and what reverses the text that follows (U+202A to 202E, 2066 to 2069)."""

_NUMBERED = re.compile(f"[{MARK}\u202a-\u202e\u2066-\u2069]")

_UNSEEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff"
)
"""Controls, and what Unicode has to steer text without being seen; lone surrogates."""
_ODD = re.compile(f"[{_UNSEEN}{MARK}]")
_UNSEEN_IN_JSON = re.compile(f"[{_UNSEEN}]")


class TerminalFilter:
    """A filter that passes text, colours, carriage returns and backspaces only.

    rai's mark, and what reverses text, is shown as its number. A sequence that is cut
    between two pieces is held until its end arrives.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be shown of this piece and of what was held back."""
        if self._held:
            data, self._held = self._held + data, b""
        # Searching is slow; most output needs none, and other only in its odd bytes.
        odd = data.translate(None, _HARMLESS)
        if not odd:
            return data
        # The end may be a part of a character.
        cut = _CUT.search(data, max(len(data) - 3, 0))
        end = cut.start() if cut else len(data)
        data, rest = data[:end], data[end:]
        data = _whole(data).translate(None, _SILENT)
        end = _finished(data)
        data, self._held = data[:end], data[end:] + rest
        if odd.translate(None, _HIGH) or _C1.search(odd):
            data = _DROPPED.sub(b"", data)
        if b"\xe2" in odd:
            data = _SHOWN_AS_NUMBERS.sub(
                lambda found: found[0].decode().encode("ascii", "backslashreplace"),
                data,
            )
        return data


def printable(text: str) -> str:
    """Return a text that quotes what is not rai's own, with its odd characters escaped.

    These are controls, rai's mark, what reverses or hides text (directions of writing,
    characters without a width), and bytes of a file's name that are not UTF-8. Lines
    and tabs stay.
    """
    return _ODD.sub(_numbered, text.replace("\r\n", "\n"))


def json_safe(text: str) -> str:
    """Return JSON with the same characters, but the mark, as JSON's own escapes.

    So is a sign of ``##[``, which GitHub reads as a command wherever it stands.
    """

    def escaped(match: re.Match[str]) -> str:
        units = match.group().encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))

    return _UNSEEN_IN_JSON.sub(escaped, text).replace("##[", r"#\u0023[")


def unmarked(text: str) -> str:
    """Return a text in which rai's mark, and what reverses text, is a number."""
    return _NUMBERED.sub(_numbered, text)


def uncoloured(text: str) -> str:
    """Return a text without its colours."""
    return re.sub(COLOUR, b"", text.encode()).decode()


def _finished(data: bytes) -> int:
    """Return where the sequence begins that a piece ends within; else its end."""
    end, first = len(data), max(len(data) - _LONGEST_HELD, 0)
    escape = data.rfind(b"\x1b", first)
    if escape == end - 1:  # it may begin the end of a string that an earlier one began
        before = data.rfind(b"\x1b", first, escape)
        escape = before if before >= 0 and _OPEN.match(data, before) else escape
    return escape if escape >= 0 and _OPEN.match(data, escape) else end


def _whole(data: bytes) -> bytes:
    """Return text of UTF-8, in which other bytes are replaced.

    Alone they are controls for some terminals. A piece of a character must not be
    completed by bytes that follow a control which is dropped.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


def _numbered(match: re.Match[str]) -> str:
    char = match.group()
    if "\udc80" <= char <= "\udcff":  # a byte of a name, as os.fsdecode keeps it
        return f"\\x{ord(char) - 0xDC00:02x}"
    return ascii(char)[1:-1]


def cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


_NOT_TEXT = re.compile("[\ud800-\udfff]")


def json_text(value: object) -> str:
    """Return a path or another value as text that can be written.

    Python keeps a byte of a name that is not UTF-8 as half a character.
    """
    return _NOT_TEXT.sub("\ufffd", str(value))


def json_bytes(value: object) -> bytes:
    """Return a value as JSON; what is no text in it becomes a replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_readable(msgspec.to_builtins(value)))


def _readable(value: Any) -> Any:  # noqa: ANN401 - JSON values have no narrower type
    match value:
        case str():
            return json_text(value)
        case dict():
            return {json_text(key): _readable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_readable(inner) for inner in value]
    return value


HANG_UP_S = 2.0
"""How long a program may live after its terminal was hung up."""


class TerminalSize(Struct, frozen=True):
    """The size of a terminal in characters."""

    rows: int
    columns: int


class Terminal(Protocol):
    """Where a person types, and where a program's output is shown.

    Its keys are bytes for the program, Ctrl-C too.
    """

    def fileno(self) -> int:
        """Return the descriptor that is readable when something was typed."""
        ...

    def read(self) -> bytes:
        """Return what was typed; b"" if the person left."""
        ...

    def write(self, data: bytes) -> None:
        """Show output; drop it if the person left."""
        ...

    def size(self) -> TerminalSize:
        """Return the size as it is now."""
        ...
