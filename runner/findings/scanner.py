"""Scan output as it arrives and collect its figures, in bounded memory.

Output is scanned in blocks of one size, so the result does not depend on how it was
delivered. A block without any word of a figure is skipped whole.
"""

from __future__ import annotations

import copy
import re

from runner.core import Findings
from runner.findings import gpu_faults
from runner.findings.gpu_faults import GpuFaultReader
from runner.findings.inference import InferenceReader
from runner.findings.lines import LineReader
from runner.findings.memory_checks import MemoryCheckReader
from runner.findings.prefilter import Prefilter, rare
from runner.findings.profiles import ProfileReader
from runner.findings.shares import Share
from runner.findings.sources import WORDS, SourceReader
from runner.findings.timing import TimingReader

_BLOCK = 64 * 1024

_FIGURES = Prefilter(
    (
        *("Op Time:", "OpTime:", "Layer Time:", "LayerTime:", "Correctness:"),
        *("Agreement:", "EvalMetric:", "Test Accuracy:", "elapsed", "real", "user"),
        *("Loading", "Test batch", *WORDS),
        *("Profiling result", "API calls:", "GPU activities:"),
        *("Time(%)", "Time (%)"),
        *("Statistics", "Summary", "stats report", "/reports/"),
        *(", Context ", ", Stream ", '"Kernel Name"', "ERROR SUMMARY"),
    )
)
_STAMP = re.compile(r"\[ ?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][^\]]{5,60}\] +")
"""The time that the original prints before each message if it is verbose."""

_PLAIN = bytes([*range(0x20, 0x7F), *range(0x80, 0x100)]) + b"\t\n"


class Scanner:
    """A scanner of one stream of a command, piece by piece.

    Each stream needs its own, since two streams mix in the middle of lines.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._lines = LineReader()
        self._sources = SourceReader()
        self._inferences = InferenceReader(self._sources)
        self._timing = TimingReader(self._sources)
        self._profiles = ProfileReader(self._sources)
        self._gpu_faults = GpuFaultReader()
        self._memory_checks = MemoryCheckReader()

    def feed(self, data: bytes) -> None:
        """Scan the next piece, of any size."""
        self._buffer += data
        if len(self._buffer) < _BLOCK:
            return
        whole = len(self._buffer) // _BLOCK * _BLOCK
        for start in range(0, whole, _BLOCK):
            self._scan(bytes(self._buffer[start : start + _BLOCK]))
        del self._buffer[:whole]

    def findings(self) -> Findings:
        """Return the findings so far, as if the output ended here."""
        end = copy.deepcopy(self)
        return end._finish()

    def shares(self) -> dict[str, Share]:
        """Return the range of each share so far, as if the output ended here."""
        end = copy.deepcopy(self)
        end._finish()
        return end._inferences.shares.found

    def _finish(self) -> Findings:
        self._scan(bytes(self._buffer))
        self._every(self._lines.finish())
        self._inferences.close()
        self._profiles.close()
        return Findings(
            inferences=tuple(self._inferences.found),
            time_usage=tuple(self._timing.found),
            profiles=tuple(self._profiles.found),
            gpu_faults=tuple(self._gpu_faults.found),
            memory_errors=tuple(self._memory_checks.found),
            under=self._sources.under,
        )

    def _scan(self, block: bytes) -> None:
        """Read a block; if it has no figures, only the lines at its edges."""
        if _skippable(block):
            head, tail = _edges(block)
            if 0 < head < tail:
                self._all_lines(block[:head])
                block = block[head if self._busy else tail :]
        self._all_lines(block)

    @property
    def _busy(self) -> bool:
        readers = (self._inferences, self._timing, self._profiles)
        return any(reader.busy for reader in readers)

    def _all_lines(self, data: bytes) -> None:
        self._every(self._lines.feed(data))

    def _every(self, lines: list[str]) -> None:
        lines = [_unstamped(line.strip()) for line in lines]
        self._gpu_faults.read(lines)
        for line in lines:
            self._inferences.read(line)
            self._timing.read(line)
            self._profiles.read(line)
            self._memory_checks.read(line)
            if self._sources.begins(line):
                self._profiles.close()
            self._sources.read(line)


def find(text: bytes | str) -> Findings:
    """Return all findings of a whole output, in its order."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    scanner = Scanner()
    scanner.feed(data)
    return scanner.findings()


def _unstamped(line: str) -> str:
    match = _STAMP.match(line) if line[:1] == "[" else None
    return line[match.end() :] if match else line


def _edges(block: bytes) -> tuple[int, int]:
    """Return where a block's first line ends and its last four lines begin.

    A kernel's name may be broken over the lines above its title.
    """
    head = block.find(b"\n") + 1
    tail = len(block)
    for _ in range(4):
        tail = block.rfind(b"\n", 0, max(tail, 0))
    return head, tail + 1


def _skippable(block: bytes) -> bool:
    """Whether no line inside a block can hold a figure."""
    remains = rare(block)
    if _FIGURES.matches(block, remains) or gpu_faults.possible(block, remains):
        return False
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    return not block.translate(None, _PLAIN)
