"""The option ``-e`` of `rai run` and `rai replay`."""

from __future__ import annotations

import os
from collections.abc import Sequence


def given(words: Sequence[str]) -> dict[str, str]:
    """Parse NAME=value, and NAME for a variable of this process.

    Raises:
        UsageError: this process has no such variable, or one is given two values;
            carries every problem.
    """
    from runner.core import Problem
    from runner.core.errors import UsageError

    pairs = [word.partition("=") for word in words]
    hint = "export it first, or write -e NAME=value"
    if missing := [n for n, equals, _ in pairs if not equals and n not in os.environ]:
        raise UsageError(
            *(
                Problem(f"-e {n}: the environment has no {n}", hint=hint)
                for n in missing
            )
        )
    found: dict[str, str] = {}
    twice: list[str] = []
    for name, equals, text in pairs:
        value = text if equals else os.environ[name]
        if found.setdefault(name, value) != value:
            twice.append(name)
    if twice:
        text = "is given twice, with different values"
        hint = "leave one out"
        raise UsageError(*(Problem(f"-e {name} {text}", hint=hint) for name in twice))
    return found
