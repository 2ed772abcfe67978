"""Scan output as it arrives and collect its figures, in bounded memory and time.

Output is scanned in blocks of one size, so the result does not depend on how it was
delivered. Of a block only the lines are read that may hold a figure, and those that
belong to an open table. What that may cost is a portion for each byte of the output;
where it is used up only the last blocks are read, and the rest is counted.
"""

from __future__ import annotations

import re

from runner.core import Findings
from runner.findings import portion
from runner.findings.candidates import candidates
from runner.findings.gpu_faults import GpuFaultReader
from runner.findings.inference import InferenceReader
from runner.findings.lines import LineReader
from runner.findings.memory_checks import MemoryCheckReader
from runner.findings.portion import LastBlocks, Portion
from runner.findings.profiles import ProfileReader
from runner.findings.shares import Share
from runner.findings.sources import SourceReader
from runner.findings.timing import TimingReader

_BLOCK = 64 * 1024
_CONTEXT = 4
"""How many lines above a kernel's title may have a part of its name."""

_CONTEXT_BYTES = 2048

_TOGETHER = 16
"""How many lines of an open table are read before it is asked whether it ended."""

_STAMP = re.compile(r"\[ ?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][^\]]{5,60}\] +")
"""The time that the original prints before each message if it is verbose."""

_PLAIN = bytes([*range(0x20, 0x7F), *range(0x80, 0x100)]) + b"\t\n"
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_STEERING = b"\b\r\x1b"
_IGNORED = bytes(c for c in (*range(0x20), 0x7F) if c not in _STEERING + b"\t\n\x07")
_REDRAWN = (b"\r\x1b[K", b"\r\x1b[0K", b"\r\x1b[2K", b"\x1b[2K\r")
"""What erases a whole line, whatever was in it."""


class Scanner:
    """A scanner of one stream of a command, piece by piece.

    Each stream needs its own, since two streams mix in the middle of lines. Both may
    share a portion of work.
    """

    def __init__(self, shared: Portion | None = None) -> None:
        self._portion = shared or Portion()
        self._find = candidates()
        self._buffer = bytearray()
        self._last: LastBlocks | None = None
        self._unsearched = 0
        self._torn = False
        self._result: Findings | None = None
        self._lines = LineReader()
        self._sources = SourceReader()
        self._inferences = InferenceReader(self._sources)
        self._timing = TimingReader(self._sources)
        self._profiles = ProfileReader(self._sources)
        self._gpu_faults = GpuFaultReader()
        self._memory_checks = MemoryCheckReader()

    def feed(self, data: bytes) -> None:
        """Scan the next piece, of any size, before the findings are asked for."""
        self._buffer += data
        if len(self._buffer) < _BLOCK:
            return
        whole = len(self._buffer) // _BLOCK * _BLOCK
        for start in range(0, whole, _BLOCK):
            self._scan(bytes(self._buffer[start : start + _BLOCK]))
        del self._buffer[:whole]

    def findings(self) -> Findings:
        """End the output, and return what was found in it."""
        if self._result is None:
            self._result = self._finish()
        return self._result

    def shares(self) -> dict[str, Share]:
        """End the output, and return the range of each share."""
        self.findings()
        return self._inferences.shares.found

    def _finish(self) -> Findings:
        self._scan(bytes(self._buffer))
        self._buffer.clear()
        if self._last is not None:
            self._read_last(self._last)
        self._search(_joined(self._lines.finish()))
        if self._last is not None:
            self._unsearched += sum(map(len, self._last.take())) + self._last.lost
        self._inferences.close()
        self._profiles.close()
        readers = (self._inferences, self._timing, self._profiles, self._memory_checks)
        return Findings(
            inferences=tuple(self._inferences.found),
            time_usage=tuple(self._timing.found),
            profiles=tuple(self._profiles.found),
            gpu_faults=tuple(self._gpu_faults.found),
            memory_errors=tuple(self._memory_checks.found),
            under=self._sources.under,
            unsearched=self._unsearched,
            left_out=sum(reader.left_out for reader in readers),
            counters=tuple(self._profiles.counters),
        )

    def _read_last(self, last: LastBlocks) -> None:
        """Read the end of a stream that was too much work before."""
        blocks, self._last = last.take(), None
        self._unsearched += last.lost
        self._portion = Portion(portion.LAST_ALLOWANCE)
        for block in blocks:
            self._scan(block)

    def _scan(self, block: bytes) -> None:
        """Read a block, or keep it for the end if that is too much work."""
        self._portion.grow(len(block))
        odd = block.translate(None, _PLAIN)
        text = block.translate(None, _IGNORED) if odd else block
        dull = self._find.printed.find(text) < 0
        if self._last is not None:
            self._last.add(block, dull=dull)
            return
        text = self._whole(text)
        if dull and not self._busy:
            self._pass_by(text)
        elif not any(byte in odd for byte in _STEERING):
            self._plain(text)
        elif self._affordable(text):
            self._search(_joined(self._lines.feed(text)))
        else:
            self._give_up(b"", text)

    def _affordable(self, text: bytes) -> bool:
        """Take the work of making lines of a text."""
        colours = len(_COLOUR.findall(text)) if b"\x1b" in text else 0
        controls = text.count(b"\x1b") + text.count(b"\b") - colours
        work = controls * portion.CONTROL + colours * portion.COLOUR
        return self._portion.take(work + len(text) * portion.TEXT_BYTE)

    def _give_up(self, lines: bytes, rest: bytes = b"") -> None:
        """Keep what remains for the end; close what is open, for a part is missing."""
        cut = _joined(self._lines.finish())
        self._last = LastBlocks()
        self._last.add(b"\n".join(filter(None, (lines, cut + rest))), dull=False)
        self._lines, self._torn = LineReader(), True
        self._inferences.close()
        self._timing.close()
        self._profiles.close()

    def _whole(self, text: bytes) -> bytes:
        """Return a block without the rest of a line whose beginning is missing."""
        if not self._torn:
            return text
        end = text.find(b"\n") + 1
        self._torn = end == 0
        self._unsearched += end or len(text)
        return text[end:] if end else b""

    def _pass_by(self, text: bytes) -> None:
        """Read of a block without figures only the lines at its edges."""
        head = text.find(b"\n") + 1
        tail = _context(text, head, len(text))
        if 0 < head < tail:
            if not self._edge(text[:head], text[tail:]):
                return
            text = text[tail:]
        self._edge(text)

    def _edge(self, text: bytes, rest: bytes = b"") -> bool:
        """Read the first or the last lines of a block; return False if it gave up."""
        redrawn = max(text.rfind(erased) for erased in _REDRAWN)
        if redrawn >= 0 and b"\n" not in text:
            self._lines, text = LineReader(), text[redrawn:]
        if not self._affordable(text):
            self._give_up(b"", text + rest)
            return False
        return self._search(_joined(self._lines.feed(text)), rest)

    def _plain(self, text: bytes) -> None:
        """Search a block whose bytes are as a terminal shows them."""
        head, tail = text.find(b"\n") + 1, text.rfind(b"\n") + 1
        first = _joined(self._lines.feed(text[:head]))
        if self._search(first, text[head:]) and (
            head == tail or self._search(text[head : tail - 1], text[tail:])
        ):
            self._lines.feed(text[tail:])

    def _search(self, lines: bytes, rest: bytes = b"") -> bool:
        """Read of clean lines those that may hold a figure or a fault.

        If that is too much work, keep them and the rest for the end; return False.
        """
        at, end = 0, len(lines)
        done = self._faults_in(lines)
        while done and at < end:
            if self._busy:
                start, stop = at, _after(lines, at, _TOGETHER)
            elif (found := self._find.lines.find(lines, at)) >= 0:
                start, stop = _context(lines, at, found), _after(lines, found, 1)
            else:
                start, stop = _context(lines, at, end), end
            some = lines[start:stop].removesuffix(b"\n").decode("utf-8", "replace")
            done = self._read(some.split("\n"))
            at = stop if done else start
        if not done:
            self._give_up(lines[at:], rest)
        return done

    def _faults_in(self, text: bytes) -> bool:
        """Read the lines that may report a fault; return False if that is too much."""
        at = 0
        while (found := self._find.faults.find(text, at)) >= 0:
            start, at = text.rfind(b"\n", 0, found) + 1, _after(text, found, 1)
            line = text[start:at]
            if not self._portion.take(portion.LINE + len(line) * portion.FAULT_BYTE):
                return False
            self._gpu_faults.read(_unstamped(line.decode("utf-8", "replace").strip()))
        return True

    @property
    def _busy(self) -> bool:
        readers = (self._inferences, self._timing, self._profiles)
        return any(reader.busy for reader in readers)

    def _read(self, lines: list[str]) -> bool:
        """Read lines; return False, and read none, if that is too much work."""
        cost = len(lines) * portion.LINE + sum(map(len, lines)) * portion.BYTE
        if not self._portion.take(cost):
            return False
        for line in map(_unstamped, map(str.strip, lines)):
            self._inferences.read(line)
            self._timing.read(line)
            self._profiles.read(line)
            self._memory_checks.read(line)
            if self._sources.begins(line):
                self._profiles.close()
            self._sources.read(line)
        return True


def find(text: bytes | str) -> Findings:
    """Return all findings of a whole output, in its order."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    scanner = Scanner()
    scanner.feed(data)
    return scanner.findings()


def _unstamped(line: str) -> str:
    match = _STAMP.match(line) if line[:1] == "[" else None
    return line[match.end() :] if match else line


def _joined(lines: list[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "replace")


def _context(text: bytes, start: int, place: int) -> int:
    """Return where a line begins, or one of the few above it that go with it."""
    first = max(start, place - _CONTEXT_BYTES)
    line = text.rfind(b"\n", start, place) + 1 or start
    if line <= first:
        return line
    at = line
    for _ in range(_CONTEXT):
        above = text.rfind(b"\n", first, at - 1) + 1
        if above == 0:
            return at if first > start else start
        at = above
    return at


def _after(text: bytes, place: int, count: int) -> int:
    """Return where the line of a place ends, or the last of so many lines."""
    for _ in range(count):
        place = text.find(b"\n", place) + 1
        if place == 0:
            return len(text)
    return place
