"""Which command, variant and batch size a figure is of; printed numbers with units."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from decimal import Decimal
from math import inf
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from runner.core import Findings, Inference, Source
from runner.core.build_spec import FIGURES, Expected
from runner.spec import commandline
from runner.spec.patterns import Pattern

UNSIGNED = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
"""The pattern of a plain number, short enough to be safe to convert."""

EXPONENTS = {"ns": -9, "us": -6, "µs": -6, "ms": -3, "s": 0, "sec": 0}

Item = TypeVar("Item")


def scaled(number: str, unit: str) -> float:
    """Return a printed number of units in seconds, as the nearest float."""
    return float(Decimal(number).scaleb(EXPONENTS[unit]))


def keep(items: list[Item], item: Item, limit: int) -> int:
    """Append an item; at the limit let it replace the last one.

    So a flood of figures costs no memory, and the newest is always kept. Return how
    many were left out for it: 1 at the limit, else 0.
    """
    if len(items) < limit:
        items.append(item)
        return 0
    items[-1] = item
    return 1


_CLAIM = re.compile(r"(Correctness|Agreement|EvalMetric|Test Accuracy):")
_FIGURE = {
    "Correctness": "correctness",
    "Agreement": "agreement",
    "EvalMetric": "accuracy",
    "Test Accuracy": "accuracy",
}
_UNREADABLE, _SHOWN = 100, 200
"""Characters of a line that are kept."""


class Share(Struct):
    """The least and the greatest value of a figure, and a line that has none.

    Such a line begins as the figure's lines do, but has no number from 0 to 1.
    """

    least: float = inf
    most: float = -inf
    unreadable: str = ""


class OutputSearch:
    """A search of the clean lines of a command's streams, piece by piece.

    A text is within one line. The first line that has it is kept.
    """

    def __init__(self, wanted: Iterable[Expected] = ()) -> None:
        self.shares = {figure: Share() for figure in FIGURES}
        self.found: dict[Expected, str] = {}
        every = tuple(wanted)
        self._texts = {one: one.value.encode() for one in every if one.how == "text"}
        self._patterns = {
            one: Pattern(one.value) for one in every if one.how == "regex"
        }

    def add(self, inference: Inference) -> None:
        """Note the shares that an inference printed."""
        for figure, share in self.shares.items():
            if (value := getattr(inference, figure)) is not None:
                share.least = min(share.least, value)
                share.most = max(share.most, value)

    def unread(self, line: str) -> None:
        """Note a line that could not be read as an inference's end."""
        if (match := _CLAIM.match(line)) is not None:
            share = self.shares[_FIGURE[match[1]]]
            share.unreadable = share.unreadable or line[:_UNREADABLE]

    def read(self, lines: bytes) -> None:
        """Search some lines."""
        text = lines.removesuffix(b"\n")
        if not text or not (self._texts or self._patterns):
            return
        text = text.decode("utf-8", "replace").encode()  # as expressions are of UTF-8
        for one, value in [*self._texts.items()]:
            if (place := text.find(value)) >= 0:
                end = text.find(b"\n", place)
                line = text[text.rfind(b"\n", 0, place) + 1 : end if end >= 0 else None]
                self._keep(one, line)
        for one, pattern in [*self._patterns.items()]:
            if (matched := pattern.line(text)) is not None:
                self._keep(one, matched)

    def _keep(self, one: Expected, line: bytes) -> None:
        self.found[one] = line.decode("utf-8", "replace").strip()[:_SHOWN]
        self._texts.pop(one, None)
        self._patterns.pop(one, None)


LONGEST_COMMAND = 200

_RUNNING = re.compile(r"[✱*]{1,2}\s*Running\s+(?P<command>\S.*?)(?:\[0m)?")
_SKIPPING = re.compile(r"✱ Skipping (?:(?P<count>[0-9]{1,6}) commands(?::| that) )?.*")
_ENDED = re.compile(r"✱ Run [0-9a-f]{10} (?:done in|ended:|cancelled:|interrupted).*")
_VARIANT = re.compile(r"Variant:\s*(?P<variant>[^\s*]{1,100})")
_BATCH = re.compile(r"(?:Test batch|Batch) size:\s*(?P<size>[0-9]{1,9})", re.I)
_BANNER = re.compile(
    r"={1,16}[0-9]{0,9}={1,16} (?:(?P<nvprof>NVPROF is profiling)"
    r"|(?P<valgrind>Memcheck, a memory)"
    r"|(?P<compute_sanitizer>COMPUTE-SANITIZER)|(?P<cuda_memcheck>CUDA-MEMCHECK))"
    r"|==PROF== (?P<ncu>Connected to process|Profiling)"
)
_MARKS = frozenset("✱*")
_FIRST_LETTERS = frozenset("✱*VTtBb=N")

Value = TypeVar("Value")


class SourceReader:
    """A reader that knows what the lines of a stream are of.

    In a log of several commands a line `✱ Running ...` begins the next, and those that
    were skipped count too. What follows the end of the run is of no command.
    """

    def __init__(self) -> None:
        self._command = Source()
        self._number = 0
        self._under: dict[str, None] = {}
        self._variant, self._variants = "", set[str]()
        self._size: int | None = None
        self._sizes = set[int | None]()

    @property
    def under(self) -> tuple[str, ...]:
        """The profilers and memory checkers that ran along with any command."""
        return tuple(self._under)

    def now(self) -> Source:
        """Return what an inference is of that ends here."""
        size = self._command.batch_size if self._size is None else self._size
        return replace(self._command, variant=self._variant, batch_size=size)

    def whole(self) -> Source:
        """Return what is known of the whole command, of which there may be several."""
        return _whole(self._command, self._variants, self._sizes)

    def begins(self, line: str) -> bool:
        """Whether a line, cleaned and stripped, begins the next command."""
        return line[:1] in _MARKS and _RUNNING.fullmatch(line) is not None

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if line[:1] not in _FIRST_LETTERS:
            return
        if line[0] in _MARKS:
            self._marked(line)
        elif (match := _VARIANT.fullmatch(line)) is not None:
            self._variant = match["variant"]
            _note(self._variants, self._variant)
        elif (match := _BATCH.fullmatch(line)) is not None:
            self._size = int(match["size"])
            _note(self._sizes, self._size)
        elif line == "New Inference":
            self._variant = ""
        elif (match := _BANNER.match(line)) is not None:
            tool = str(match.lastgroup).replace("_", "-")
            under = dict.fromkeys((*self._command.under, tool))
            self._command = replace(self._command, under=tuple(under))
            self._under |= under

    def _marked(self, line: str) -> None:
        """Read one of rai's own lines."""
        if (match := _RUNNING.fullmatch(line)) is not None:
            self._number += 1
            self._become(_source(self._number, match["command"], match["command"]))
            self._under |= dict.fromkeys(self._command.under)
        elif (match := _SKIPPING.fullmatch(line)) is not None:
            self._number += int(match["count"] or 1)
        elif _ENDED.fullmatch(line) is not None:
            self._become(Source())

    def _become(self, command: Source) -> None:
        self._command = command
        self._variant, self._variants = "", set()
        self._size, self._sizes = None, set()


def _note(values: set[Value], value: Value) -> None:
    """Add a value, of which it only matters whether there are several."""
    if len(values) < 2:
        values.add(value)


def _source(number: int, name: str, line: str) -> Source:
    """Return what a command's line says of its figures."""
    size, under = commandline.batch_size(line), commandline.tools(line)
    return Source(number, name[:LONGEST_COMMAND], "", size, under)


def _whole(
    command: Source, variants: Collection[str], sizes: Collection[int | None]
) -> Source:
    """Return a command with its only variant and batch size, if there is one."""
    size = command.batch_size
    return replace(
        command,
        variant=next(iter(variants)) if len(variants) == 1 else "",
        batch_size=next(iter(sizes)) if len(sizes) == 1 else None if sizes else size,
    )


def attributed(found: Findings, number: int, command: str, line: str) -> Findings:
    """Return the figures of a command with what they are of.

    ``number`` counts from 1, ``command`` is its name or line, and ``line`` the line.
    """
    under = tuple(dict.fromkeys((*commandline.tools(line), *found.under)))
    named = replace(_source(number, command, line), under=under)
    inferences = tuple(
        replace(
            one,
            source=replace(
                named,
                variant=one.source.variant,
                batch_size=one.source.batch_size or named.batch_size,
            ),
        )
        for one in found.inferences
    )
    whole = _whole(
        named,
        {one.source.variant for one in inferences},
        {one.source.batch_size for one in inferences},
    )
    others = {
        name: tuple(replace(one, source=whole) for one in getattr(found, name))
        for name in ("time_usage", "profiles", "counters")
    }
    return replace(found, inferences=inferences, under=under, **others)
