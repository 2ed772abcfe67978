"""How a command is started on this machine: limits first, then the program. Pure.

A POSIX shell sets the limits and becomes the program, so that one that is missing ends
with 127, and one that is no program with 126, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.core import Limits

BLOCK_BYTES = 512


def limited(command: Sequence[str], limits: Limits, greeting: str = "") -> list[str]:
    """Set the limits that every process has for itself, then become the command.

    ``greeting`` is said on stderr when all that comes before the command worked.
    """
    script = (
        "ulimit -c 0; "
        f"ulimit -n {limits.open_files} 2>/dev/null; "
        f"ulimit -f {limits.file_bytes // BLOCK_BYTES} 2>/dev/null; "
        f"{_say(greeting)}"
        'exec "$@"'
    )
    return ["/bin/sh", "-c", script, "rai", *command]


def _say(greeting: str) -> str:
    return f"printf %s {greeting} >&2; " if greeting else ""


def clean(environment: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Start a command with an environment, and nothing else of the caller's."""
    names = [f"{name}={value}" for name, value in environment.items()]
    return ["/usr/bin/env", "-i", *names, *command]


def joined(groups: Sequence[str], command: Sequence[str]) -> list[str]:
    """Enter control groups by their files, then become the command."""
    if not groups:
        return list(command)
    enter = "; ".join(f'echo 0 >"${{{n}}}"' for n in range(1, len(groups) + 1))
    script = f'{enter}; shift {len(groups)}; exec "$@"'
    return ["/bin/sh", "-c", f"set -e; {script}", "rai", *groups, *command]
