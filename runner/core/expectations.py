"""What a build file expects of a command's output, and what was found there."""

from __future__ import annotations

from msgspec import Struct

from runner.core.problem import Place

FIGURES = ("correctness", "agreement", "accuracy")
"""The printed figures that a build file may expect, each a share from 0 to 1."""


class Expected(Struct, frozen=True):
    """One expected thing.

    ``what`` is a figure, and ``how`` its comparison: ``=``, ``>=``, ``<=``, ``>`` or
    ``<``. Otherwise ``what`` is "output", and ``how`` is "text" or "regex".
    """

    what: str
    how: str
    value: str

    @property
    def words(self) -> str:
        """Describe it: ``correctness 0.8898``, ``output "PASS"``."""
        if self.how == "text":
            return f'{self.what} "{self.value}"'
        if self.how == "regex":
            return f"{self.what} /{self.value}/"
        how = () if self.how == "=" else (self.how,)
        return " ".join((self.what, *how, self.value))


class Expectation(Struct, frozen=True):
    """What a command is expected to print: one of the alternatives, if several."""

    alternatives: tuple[Expected, ...]
    place: Place | None = None

    @property
    def words(self) -> str:
        """Describe it, with all alternatives."""
        return " or ".join(one.words for one in self.alternatives)


class Check(Struct, frozen=True):
    """An expectation, and what the command printed.

    ``found`` is "" if it printed nothing of the kind.
    """

    expected: str
    found: str
    holds: bool
    place: Place | None = None
