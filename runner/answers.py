"""One command's output: its figures, and whether it is what the build file expects."""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

from runner.core import Command, Findings, Stream
from runner.core.events import Output
from runner.core.expectations import Check, Expectation, Expected

if TYPE_CHECKING:
    from runner.findings.scanner import Scanner
    from runner.findings.searches import TextSearch
    from runner.findings.shares import Share

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
        self._search: TextSearch | None = None

    def feed(self, event: Output) -> None:
        """Read the next piece of output."""
        if not self._scanners:
            self._start()
        self._scanners[event.stream].feed(event.data)
        if self._search is not None:
            self._search.feed(event.stream, event.data)

    def findings(self) -> Findings:
        """Return the figures and faults in the output, with the command's name."""
        if not self._scanners:
            return Findings()
        from runner.findings import attributed, combined

        found = combined(scanner.findings() for scanner in self._scanners.values())
        line = self._command.text
        return attributed(found, self._number, self._command.name or line, line)

    def checks(self) -> tuple[Check, ...]:
        """Compare the whole output with what the build file expects."""
        if not self._command.expect:
            return ()
        if not self._scanners:
            self._start()
        if self._search is not None:
            self._search.finish()
        shares = self._shares()
        texts = self._search.found if self._search else {}
        return tuple(check(one, shares, texts) for one in self._command.expect)

    def _start(self) -> None:
        from runner.findings.scanner import Scanner

        self._scanners = {stream: Scanner() for stream in Stream}
        texts = [
            o
            for e in self._command.expect
            for o in e.alternatives
            if o.what == "output"
        ]
        if texts:
            from runner.findings.searches import TextSearch

            self._search = TextSearch(texts)

    def _shares(self) -> dict[str, Share]:
        from runner.findings.shares import joined

        streams = [scanner.shares() for scanner in self._scanners.values()]
        return {
            figure: reduce(joined, (stream[figure] for stream in streams))
            for figure in streams[0]
        }


class _Answer(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"


def check(
    expectation: Expectation, shares: dict[str, Share], texts: dict[Expected, str]
) -> Check:
    """Compare what a command printed with one expectation.

    Of several alternatives one must hold, and no other must be printed with another
    value.
    """
    answers = [_answer(one, shares, texts) for one in expectation.alternatives]
    for wanted in (_Answer.WRONG, _Answer.RIGHT, _Answer.MISSING):
        for answer, found in answers:
            if answer is wanted:
                right = wanted is _Answer.RIGHT
                return Check(expectation.words, found, right, expectation.place)
    raise AssertionError("an expectation has an alternative")


def _answer(
    one: Expected, shares: dict[str, Share], texts: dict[Expected, str]
) -> tuple[_Answer, str]:
    if one.what == "output":
        found = texts.get(one)
        return (_Answer.MISSING, "") if found is None else (_Answer.RIGHT, found)
    share = shares[one.what]
    if share.unreadable:
        return _Answer.WRONG, share.unreadable
    if share.least is None or share.most is None:
        return _Answer.MISSING, ""
    for value in (share.least, share.most):
        if not _holds(value, one):
            return _Answer.WRONG, f"{one.what} {value!r}"
    ends = dict.fromkeys((repr(share.least), repr(share.most)))
    return _Answer.RIGHT, f"{one.what} {' to '.join(ends)}"


def _holds(value: float, one: Expected) -> bool:
    """Compare a printed share, rounded where it must be equal."""
    found, wanted = Decimal(repr(value)), Decimal(one.value)
    match one.how:
        case ">=":
            return found >= wanted
        case "<=":
            return found <= wanted
        case ">":
            return found > wanted
        case "<":
            return found < wanted
        case _:
            exponent = wanted.as_tuple().exponent
            given = -exponent if isinstance(exponent, int) else 0
            decimals = Decimal(1).scaleb(-max(given, FEWEST_DECIMALS))
            return found.quantize(decimals) == wanted.quantize(decimals)
