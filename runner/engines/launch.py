"""Command lines that set limits, environment and control groups first. Pure.

A POSIX shell sets the limits and then execs the program, so that the exit code is 127
for a missing program and 126 for a file that is not one, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

from runner.core import Limits

BLOCK_BYTES = 512

TAKE_TERMINAL = """\
import fcntl, os, signal, sys, termios
if os.getsid(0) != os.getpid():
    os.setsid()
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
os.write(2, sys.argv[1].encode())
os.dup2(1, 2)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Make stdout the terminal of a new session, and stderr the same; run a program."""

FIND = """\
case $1 in
*/*) [ -e "$1" ] ;;
*) command -v "$1" >/dev/null 2>&1 ;;
esac || { echo "command not found: $1" >&2; exit 127; }
case $1 in
*/*) { [ -f "$1" ] && [ -x "$1" ]; } ||
    { echo "cannot run $1: it is not an executable file" >&2; exit 126; } ;;
esac
"""
"""Look for the program first: a shell that fails to exec it names itself instead."""

READ_EXPORTS = 'eval "$(/bin/cat)"; exec </dev/null; '


def with_limits(
    command: Sequence[str],
    limits: Limits,
    start_marker: str = "",
    *,
    exported: bool = False,
    terminal: bool = False,
) -> list[str]:
    """Return the command line that sets per-process limits and execs the command.

    ``start_marker`` is printed to stderr just before the command starts. With
    ``exported`` stdin is a script of ``exports``; with ``terminal`` stdout is the
    command's stdin too.
    """
    script = (
        f"{READ_EXPORTS if exported else ''}"
        f"{'exec <&1; ' if terminal else ''}"
        "ulimit -c 0; "
        f"ulimit -n {limits.open_files} 2>/dev/null; "
        f"ulimit -f {limits.file_bytes // BLOCK_BYTES} 2>/dev/null; "
        f"{f'printf %s {start_marker} >&2; ' if start_marker else ''}"
        f'{FIND}exec "$@"'
    )
    return ["/bin/sh", "-c", script, "rai", *command]


def exports(variables: Mapping[str, str]) -> bytes:
    """Return the shell script that sets variables, for stdin: nobody else sees that."""
    lines = (f"export {name}={quote(value)}\n" for name, value in variables.items())
    return "".join(lines).encode()


def with_environment(
    environment: Mapping[str, str], command: Sequence[str]
) -> list[str]:
    """Return the command line that starts a command with only this environment."""
    names = [f"{name}={value}" for name, value in environment.items()]
    return ["/usr/bin/env", "-i", *names, *command]


def on_terminal(python: str, start_marker: str, command: Sequence[str]) -> list[str]:
    """Return the command line that starts a command on the terminal of its stdout.

    ``start_marker`` is printed to stderr just before, which then is that terminal too.
    """
    return [python, "-I", "-S", "-c", TAKE_TERMINAL, start_marker, *command]


def in_groups(groups: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return the command line that joins control groups and execs the command."""
    if not groups:
        return list(command)
    enter = "; ".join(f'echo 0 >"${{{n}}}"' for n in range(1, len(groups) + 1))
    script = f'{enter}; shift {len(groups)}; exec "$@"'
    return ["/bin/sh", "-c", f"set -e; {script}", "rai", *groups, *command]
