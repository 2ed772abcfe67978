"""Scan output as it arrives and collect its figures, in bounded memory and time.

Of each stream the first and the last bytes are read; what is between them is counted.
They become clean lines: no escapes, and what a return left, so that a progress bar
leaves its last state. Of these only the lines are read that may hold a figure, and
those of an open table. Time is linear in the bytes, whatever they are.
"""

from __future__ import annotations

import re
from functools import cache

from runner.core import Findings, GpuFault, GpuFaultKind
from runner.figures.printed import (
    WORDS,
    InferenceReader,
    TimingReader,
    fault,
    mistake,
)
from runner.figures.profiles import ProfileReader
from runner.figures.sources import OutputSearch, SourceReader, keep
from runner.spec.patterns import Finder

FIRST_BYTES = LAST_BYTES = 4 << 20
"""Of a stream, that are read."""

EVERYTHING = 1 << 62
"""The first bytes of an output that is read whole."""

LINE_LIMIT = 32 * 1024
"""The number of bytes of a line that are sure to be read; the rest may be dropped."""

MOST_CHECKS = 1000
"""Runs of memory checkers that are kept; after that the newest replaces the last."""

MOST_LINES = 100_000
"""Lines of the first part, and of the last, that are read as possible figures."""

_BLOCK = 64 * 1024

_TOGETHER = 16
"""How many lines of an open table are read before it is asked whether it ended."""

_STAMP = re.compile(r"\[ ?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][^\]]{5,60}\] +")
"""The time that the original prints before each message if it is verbose."""

_CHECKED = re.compile(
    r"={2,9}(?:[0-9]{1,9}==)? ERROR SUMMARY: (?P<errors>[0-9]{1,9}) errors?"
    r"(?: from [0-9]{1,9} contexts? \(suppressed: [0-9]{1,9} from [0-9]{1,9}\))?"
)
"""The number of errors that a memory checker found."""

_SPACE = rb"[\s\x80-\xff]*"  # a space of Unicode is several bytes
_BEGIN = rb"(?:^|\] +)" + _SPACE  # after a time, too
_FIGURE = rb"|".join(
    (
        rb"Time:[\s*\x80-\xff]*[0-9]",
        rb"Correctness:|Agreement:|EvalMetric:|Test Accuracy:|New Inference",
        _BEGIN + rb"(?:Loading (?:model|[^\n]*data)|Test batch)",
        _BEGIN + rb"(?:real|user|sys)" + _SPACE + rb"[0-9]",
        rb"[0-9]user\s|[0-9]elapsed",
        "(?:✱|[*])".encode() + _SPACE + rb"(?:Running\s|Run |Skipping )",
        rb"Variant:|(?i:batch size:)",
        rb"= (?:NVPROF is|Memcheck, a|COMPUTE-SANITIZER|CUDA-MEMCHECK)|==PROF==",
        rb"Profiling result:|API calls:|GPU activities:|OpenACC \(|OpenMP \(",
        rb"Time ?\(%\)|(?:Statistics|Summary)[ (\w/)]*:?" + _SPACE + rb"$",
        rb"stats report|(?:Processing|Running) \[[^\n]*/reports/",
        rb"\"Kernel Name\"|ERROR SUMMARY: [0-9]",
    )
)


@cache
def _finders() -> tuple[Finder, Finder]:
    """Return the searches for lines that may hold a figure, and for faults."""
    faults = b"|".join(re.escape(word.encode()) for word in WORDS)
    return Finder(_FIGURE), Finder(faults)


class Scanner:
    """A scanner of one stream of a command, piece by piece.

    Each stream needs its own, since two streams mix in the middle of lines. ``search``
    gets the same lines.
    """

    def __init__(
        self, search: OutputSearch | None = None, first: int = FIRST_BYTES
    ) -> None:
        self._search, self._room = search or OutputSearch(), first
        self._figures, self._faults = _finders()
        self._first, self._last = bytearray(), bytearray()
        self._lost = self._unsearched = 0
        self._left = MOST_LINES if first == FIRST_BYTES else first
        self._result: Findings | None = None
        self._lines = LineReader()
        self._sources = SourceReader()
        self._inferences = InferenceReader(self._sources, self._search)
        self._timing = TimingReader(self._sources)
        self._profiles = ProfileReader(self._sources)
        self._readers = (self._inferences, self._timing, self._profiles)
        self._gpu_faults: dict[GpuFaultKind, GpuFault] = {}
        self._mistake = ""
        self._memory_errors: list[int] = []
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        """Scan the next piece, of any size, before the findings are asked for."""
        if self._room:
            self._first += data[: self._room]
            data, self._room = data[self._room :], max(0, self._room - len(data))
            whole = len(self._first) // _BLOCK * _BLOCK
            for start in range(0, whole, _BLOCK):
                self._read(self._lines.feed(bytes(self._first[start : start + _BLOCK])))
            del self._first[:whole]
        self._last += data
        if len(self._last) > LAST_BYTES + LAST_BYTES // 4:
            self._lose()

    def _lose(self) -> None:
        """Forget what is before the last bytes."""
        over = len(self._last) - LAST_BYTES
        if over > 0:
            self._lost += over
            del self._last[:over]

    def findings(self) -> Findings:
        """End the output, and return what was found in it."""
        if self._result is None:
            self._result = self._finish()
        return self._result

    def _finish(self) -> Findings:
        self._read(self._lines.feed(bytes(self._first)))
        self._lose()
        if self._lost:
            self._tear()
        for start in range(0, len(self._last), _BLOCK):
            self._read(self._lines.feed(bytes(self._last[start : start + _BLOCK])))
        self._last.clear()
        self._end()
        return Findings(
            inferences=tuple(self._inferences.found),
            time_usage=tuple(self._timing.found),
            profiles=tuple(self._profiles.found),
            gpu_faults=tuple(self._gpu_faults.values()),
            memory_errors=tuple(self._memory_errors),
            under=self._sources.under,
            unsearched=self._unsearched + self._lost,
            left_out=self._left_out + sum(reader.left_out for reader in self._readers),
            counters=tuple(self._profiles.counters),
            mistake=self._mistake,
        )

    def _end(self) -> None:
        """End what is open."""
        self._read(self._lines.finish())
        for reader in self._readers:
            reader.close()

    def _tear(self) -> None:
        """End what is open before a gap, and drop the torn line after it."""
        self._end()
        self._left = MOST_LINES
        torn = self._last.find(b"\n") + 1 or len(self._last)
        del self._last[:torn]
        self._lost += torn

    def _read(self, lines: bytes) -> None:
        """Read of clean lines those that may hold a figure or a fault."""
        self._search.read(lines)
        self._read_faults(lines)
        at, end = 0, len(lines)
        while at < end:
            if self._left <= 0:
                self._unsearched += end - at
                return
            if any(reader.busy for reader in self._readers):
                start, stop = at, _after(lines, at, _TOGETHER)
            elif (found := self._figures.find(lines, at)) >= 0:
                start = lines.rfind(b"\n", at, found) + 1 or at
                stop = _after(lines, found, 1)
            else:
                return
            self._read_lines(lines[start:stop])
            at = stop

    def _read_faults(self, lines: bytes) -> None:
        at = 0
        while self._left > 0 and (found := self._faults.find(lines, at)) >= 0:
            start, at = lines.rfind(b"\n", 0, found) + 1, _after(lines, found, 1)
            line = _decoded(lines[start:at])
            self._mistake = self._mistake or mistake(line)
            if (reported := fault(line)) is not None:
                self._gpu_faults.setdefault(reported.kind, reported)
            self._left -= 1

    def _read_lines(self, lines: bytes) -> None:
        for line in map(_decoded, lines.removesuffix(b"\n").split(b"\n")):
            self._left -= 1
            for reader in self._readers:
                reader.read(line)
            if line[:2] == "==" and (match := _CHECKED.fullmatch(line)) is not None:
                errors = int(match["errors"])
                self._left_out += keep(self._memory_errors, errors, MOST_CHECKS)
            if self._sources.begins(line):
                self._profiles.close()
            self._sources.read(line)


def find(text: bytes | str) -> Findings:
    """Return all findings of a whole output, in its order."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    scanner = Scanner(first=EVERYTHING)
    scanner.feed(data)
    return scanner.findings()


def _decoded(line: bytes) -> str:
    """Return a line as text, without the time before it."""
    text = line[:LINE_LIMIT].decode("utf-8", "replace").strip()
    match = _STAMP.match(text) if text[:1] == "[" else None
    return text[match.end() :] if match else text


def _after(text: bytes, place: int, count: int) -> int:
    """Return where the line of a place ends, or the last of so many lines."""
    for _ in range(count):
        place = text.find(b"\n", place) + 1
        if place == 0:
            return len(text)
    return place


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
