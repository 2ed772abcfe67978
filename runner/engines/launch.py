"""Command lines that set limits, environment and control groups first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

from runner.core import Limits

ADDED_PATH = ("/usr/local/cuda/bin", "/usr/local/nvidia/bin")
SYSTEM_PATH = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
LIBRARY_PATH = ("/usr/local/cuda/lib64", "/usr/local/nvidia/lib64")


def environment(
    *,
    source: str = "/src",
    build: str = "/build",
    data: str = "/data",
    user: str = "root",
    home: str = "/tmp/home",
    shell: str = "/bin/bash",
    image: str = "",
    gpus: str = "",
    first_on_path: Sequence[str] = (),
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variables that scripts written for the original rely on.

    ``base`` is the environment of the image or the host. Its other variables stay; its
    PATH and LD_LIBRARY_PATH are appended to the folders that come first. ``gpus`` are
    the UUIDs of the run's GPUs; with "" CUDA sees none, as in the original.
    """
    base = base or {}
    return {
        **base,
        "CI": "rai",
        "RAI": "true",
        "RAI_ARCH": "linux/amd64",
        "RAI_USER": user,
        "RAI_SOURCE_DIR": source,
        "RAI_BUILD_DIR": build,
        "RAI_DATA_DIR": data,
        "SOURCE_DIR": source,
        "BUILD_DIR": build,
        "DATA_DIR": data,
        "IMAGE_NAME": image,
        "CUDA_VISIBLE_DEVICES": gpus,
        "TERM": "xterm",
        "SHELL": shell,
        "HOME": home,
        # Python, and so PyTorch, needs these for a uid that is not in passwd.
        "USER": user,
        "LOGNAME": user,
        "PATH": _joined(
            (*first_on_path, *ADDED_PATH), base.get("PATH") or ":".join(SYSTEM_PATH)
        ),
        "LD_LIBRARY_PATH": _joined(LIBRARY_PATH, base.get("LD_LIBRARY_PATH", "")),
        # Python would buffer its output to a pipe, and the user follows it live.
        "PYTHONUNBUFFERED": "1",
    }


def _joined(first: Sequence[str], rest: str) -> str:
    """Join folders and a search path, without duplicates and empty ones."""
    return ":".join(dict.fromkeys(f for f in (*first, *rest.split(":")) if f))


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
