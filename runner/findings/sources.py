"""Tell what each figure is of: its command, variant, batch size, and what ran along."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeVar

from msgspec.structs import replace

from runner.commandline import programs
from runner.core import Findings, Source

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
    size, under = programs.batch_size(line), programs.tools(line)
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
    under = tuple(dict.fromkeys((*programs.tools(line), *found.under)))
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
