"""One command's output: its figures, and whether it is what the build file expects."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from runner.core import Command, Findings, Stream, quantities
from runner.core.build_spec import Check, Expectation, Expected
from runner.core.events import Output
from runner.core.figures import MOST_BYTES

if TYPE_CHECKING:
    from runner.figures.scanner import Scanner
    from runner.figures.sources import OutputSearch

FEWEST_DECIMALS = 4
"""Figures are compared with this many decimals, unless more are given."""


class CommandOutput:
    """Reads the output of one command, each stream by itself.

    The scanner is imported at the first output, while the command runs: a silent one
    does not need it.
    """

    def __init__(self, command: Command, number: int) -> None:
        self._command, self._number = command, number
        self._scanners: dict[Stream, Scanner] = {}
        self._search: OutputSearch | None = None

    def feed(self, event: Output) -> None:
        """Read the next piece of output."""
        if not self._scanners:
            self._start()
        self._scanners[event.stream].feed(event.data)

    def findings(self, most_bytes: int = MOST_BYTES) -> Findings:
        """End the output; return its figures and faults, with the command's name.

        In the record they take at most ``most_bytes``, or little more.
        """
        if not self._scanners:
            return Findings()
        from runner.core.figures import combined, fitting
        from runner.figures.sources import attributed

        found = combined(scanner.findings() for scanner in self._scanners.values())
        line = self._command.text
        named = attributed(found, self._number, self._command.name or line, line)
        return fitting(named, most_bytes)

    def checks(self) -> tuple[Check, ...]:
        """Compare the whole output with what the build file expects."""
        if not self._command.expect:
            return ()
        if not self._scanners:
            self._start()
        assert self._search is not None
        size = sum(each.findings().unsearched for each in self._scanners.values())
        missing = (
            f"{quantities.size(size)} of the output were not searched" if size else ""
        )
        return tuple(_check(one, self._search, missing) for one in self._command.expect)

    def _start(self) -> None:
        from runner.figures.scanner import Scanner
        from runner.figures.sources import OutputSearch

        every = (o for e in self._command.expect for o in e.alternatives)
        self._search = OutputSearch(every)
        self._scanners = {stream: Scanner(self._search) for stream in Stream}


def _check(expectation: Expectation, search: OutputSearch, missing: str) -> Check:
    """Compare what a command printed with one expectation.

    Of several alternatives one must hold, and no other must be printed with another
    value.
    """
    answers = [_answer(one, search, missing) for one in expectation.alternatives]
    for wanted in (False, True, None):
        for right, found in answers:
            if right is wanted:
                return Check(expectation.words, found, bool(right), expectation.place)
    raise AssertionError("an expectation has an alternative")


def _answer(
    one: Expected, search: OutputSearch, missing: str
) -> tuple[bool | None, str]:
    """Return whether what was printed is right, None if nothing was, and what it is."""
    if one.what == "output":
        found = search.found.get(one)
        return (None, missing) if found is None else (True, found)
    share = search.shares[one.what]
    if share.unreadable:
        return False, share.unreadable
    if share.least > share.most:
        return None, missing
    for value in (share.least, share.most):
        if not _holds(value, one):
            return False, f"{one.what} {value!r}"
    ends = dict.fromkeys((repr(share.least), repr(share.most)))
    return True, f"{one.what} {' to '.join(ends)}"


def _holds(value: float, one: Expected) -> bool:
    """Compare a printed share, rounded where it must be equal."""
    found, wanted = Decimal(repr(value)), Decimal(one.value)
    if compare := _COMPARE.get(one.how):
        return compare(found, wanted)
    exponent = wanted.as_tuple().exponent
    given = -exponent if isinstance(exponent, int) else 0
    decimals = Decimal(1).scaleb(-max(given, FEWEST_DECIMALS))
    return found.quantize(decimals) == wanted.quantize(decimals)


_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
