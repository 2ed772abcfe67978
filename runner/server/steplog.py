"""Where what a server does by itself is logged."""

from __future__ import annotations

from typing import Protocol


class StepLog(Protocol):
    """What takes the steps; ``logs.step`` is one."""

    def __call__(self, name: str, /, **facts: str | int | float | bool | None) -> None:
        """Log a step with its facts."""


def silent(name: str, /, **facts: str | int | float | bool | None) -> None:
    """Log nothing."""
