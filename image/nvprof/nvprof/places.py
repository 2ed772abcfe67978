"""File names with nvprof's placeholders %p, %h, %q{NAME} and %%."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SIGN = re.compile(r"%(?:([ph%])|q\{([^}]*)\})")
STDOUT = ("%1", "-")
STDERR = ("%2",)


def expanded(
    name: str, environ: Mapping[str, str], host: str, pid: int | None = None
) -> str:
    """Return a name with placeholders replaced, except %p and %% without a process."""

    def replaced(sign: re.Match[str]) -> str:
        if sign[1] == "p":
            return sign[0] if pid is None else str(pid)
        if sign[1] == "h":
            return host
        if sign[1] == "%":
            return sign[0] if pid is None else "%"
        return environ.get(sign[2], "")

    return _SIGN.sub(replaced, name)


def of_each_process(name: str) -> bool:
    """Return whether the name contains the process ID."""
    return any(sign[1] == "p" for sign in _SIGN.finditer(name))


def unused(name: str, taken: set[str], pid: int) -> str:
    """Return a file name that no other process of the run uses."""
    fresh, turn = name, 0
    while fresh in taken:
        turn += 1
        fresh = f"{name}.{pid}" if turn == 1 else f"{name}.{pid}.{turn}"
    return fresh
