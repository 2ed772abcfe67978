"""Which commands of a run are repeated, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set

from msgspec.structs import replace

from runner import report
from runner.core import Findings, JobRequest, Step
from runner.core.samples import MOST_ROUNDS

GoOn = Callable[[int], bool]
"""Whether another round follows; the argument is how many there were."""


class Rounds:
    """The rounds of one run: the first, of all commands, and those that repeat some.

    Repeated are the commands that ended well and that the request names; else those
    that printed a figure; else the last one. What they print decides once, after the
    first round. The budget counts the time of the rounds, not that between them.
    """

    def __init__(self, request: JobRequest, go_on: GoOn | None) -> None:
        self._request = request
        self._go_on = go_on or (lambda count: count < request.asked.repeat)
        self.wanted = go_on is not None or request.asked.repeat > 1
        self.notes: list[str] = []
        """Why fewer commands were repeated, or less often, than was asked for."""
        self._repeated: tuple[Step, ...] | None = None
        self._count, self._spent_s, self._longest_s, self._began_s = 0, 0.0, 0.0, 0.0

    def ended(self) -> None:
        """Note that a round ended just now."""
        if self._count:
            took_s = time.monotonic() - self._began_s
            self._spent_s += took_s
            self._longest_s = max(self._longest_s, took_s)
        self._count += 1

    def steps(
        self, steps: Sequence[Step], well: Set[int], found: Mapping[int, Findings]
    ) -> tuple[Step, ...]:
        """Return the steps of one more round; none if there is no other.

        ``steps`` are all those so far, ``well`` the indexes of those that ended well,
        and ``found`` is what they printed.
        """
        if self._count >= MOST_ROUNDS or not self._go_on(self._count):
            return ()
        if self._repeated is None:
            self._repeated = self._measured(steps, well, found)
        if not self._repeated:
            return ()
        if self._spent_s + self._longest_s >= self._request.budget_s:
            self.notes.append(self._over())
            return ()
        self._began_s = time.monotonic()
        first = len(steps)
        return tuple(
            replace(step, index=first + n, repeats=step.index, round=self._count)
            for n, step in enumerate(self._repeated)
        )

    def _measured(
        self, steps: Sequence[Step], well: Set[int], found: Mapping[int, Findings]
    ) -> tuple[Step, ...]:
        """Return the commands to repeat; note which are not, though they are named."""
        named = self._request.repeated
        again = measured([s for s in steps if s.index in well], named, found)
        if not again:
            text = "nothing is repeated: no command that is measured ended well"
            self.notes.append(text)
        elif missing := named - {step.index for step in again}:
            numbers = ", ".join(str(index + 1) for index in sorted(missing))
            which = f"command{'s' if len(missing) > 1 else ''} {numbers}"
            text = (
                f"not repeated, because it did not end well in the first round: {which}"
            )
            self.notes.append(text)
        return again

    def _over(self) -> str:
        asked, budget = (
            self._request.asked.repeat,
            report.seconds(self._request.budget_s),
        )
        of = f" of {asked}" if asked > 1 else ""
        rounds = "round" if self._count == 1 and not of else "rounds"
        return (
            f"measured in {self._count}{of} {rounds}: one more may not end within the"
            f" {budget} that repeats have"
        )


def measured(
    ran: Sequence[Step], named: Set[int], found: Mapping[int, Findings]
) -> tuple[Step, ...]:
    """Return which of the commands that ended well are measured again.

    ``named`` are the indexes of those that the user named; if there are none, the
    commands that printed a time, a correctness or a profile, else the last one.
    """
    if named:
        return tuple(step for step in ran if step.index in named)
    figures = (step for step in ran if _has_figures(found.get(step.index, Findings())))
    return tuple(figures) or tuple(ran[-1:])


def _has_figures(found: Findings) -> bool:
    return bool(found.inferences or found.profiles)
