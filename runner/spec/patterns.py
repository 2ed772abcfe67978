"""Regular expressions of a project's files, searched in linear time.

They are RE2's: Python's own may take forever on a line that a project chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST = 1000
"""The most characters of an expression."""

LARGEST = 1000
"""The most instructions of a compiled expression.

The largest takes some 50 ms for 64 KiB of the worst text.
"""

_MEMORY = 16 << 20
"""What RE2 may use for an expression of rai's own, which are large."""


def linear(text: str) -> Any | None:  # noqa: ANN401 - RE2 has no types
    """Compile an expression that another library made; None if RE2 does not take it."""
    return made(lambda: _compiled(text))


def made(make: Callable[[], T]) -> T | None:
    """Return what another library makes with RE2; None if that is too large for RE2."""
    import re2  # type: ignore[import-untyped] # few projects need it

    try:
        return make()
    except re2.error:
        return None


def _compiled(text: str | bytes, **settings: object) -> Any:  # noqa: ANN401
    import re2

    options = re2.Options()
    options.log_errors = False
    for name, value in settings.items():
        setattr(options, name, value)
    return re2.compile(text, options)


class PatternError(ValueError):
    """The expression is not one that can be searched for."""


class Pattern:
    """A compiled expression; ``^`` and ``$`` match at the ends of each line."""

    def __init__(self, text: str) -> None:
        """Compile an expression, or raise PatternError."""
        import re2  # few build files need it

        if len(text) > LONGEST:
            raise PatternError(f"it is longer than {LONGEST} characters")
        try:
            # No match crosses the end of a line.
            self._compiled = _compiled(f"(?m){text}".encode(), never_nl=True)
        except re2.error as error:
            said = error.args[0] if error.args else ""
            why = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
            raise PatternError(str(why).replace("(?m)", "", 1)) from None
        if self._compiled.programsize > LARGEST:
            raise PatternError("it is too complex")

    def line(self, text: bytes) -> bytes | None:
        """Return the first line of a UTF-8 text that has a match; None without one."""
        match = self._compiled.search(text)
        if match is None:
            return None
        start, end = match.span()
        first = text.rfind(b"\n", 0, start) + 1
        last = text.find(b"\n", end)
        return text[first : last if last >= 0 else len(text)]


class Finder:
    """A search of bytes for an expression of rai's own, from a place on.

    ``^`` and ``$`` match at the ends of each line.
    """

    def __init__(self, text: bytes) -> None:
        import re2

        latin = re2.Options.Encoding.LATIN1
        self._compiled = _compiled(b"(?m)" + text, encoding=latin, max_mem=_MEMORY)

    def find(self, data: bytes, start: int = 0) -> int:
        """Return where the next match begins; -1 without one."""
        match = self._compiled.search(data, start)
        return -1 if match is None else int(match.start())
