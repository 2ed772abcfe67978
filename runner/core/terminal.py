"""A person's terminal, as an engine sees it."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

HANG_UP_S = 2.0
"""How long a program may live after its terminal was hung up."""


class TerminalSize(Struct, frozen=True):
    """The size of a terminal in characters."""

    rows: int
    columns: int


class Terminal(Protocol):
    """Where a person types, and where a program's output is shown.

    Its keys are bytes for the program, Ctrl-C too.
    """

    def fileno(self) -> int:
        """Return the descriptor that is readable when something was typed."""
        ...

    def read(self) -> bytes:
        """Return what was typed; b"" if the person left."""
        ...

    def write(self, data: bytes) -> None:
        """Show output; drop it if the person left."""
        ...

    def size(self) -> TerminalSize:
        """Return the size as it is now."""
        ...
