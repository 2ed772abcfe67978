"""Replacements for programs that the host lacks, or has by another name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from pathlib import Path

from runner.core import Invocation
from runner.engines.folders import Folders
from runner.engines.local import seccomp
from runner.engines.local.host import Host
from runner.engines.local.layout import FIRST, TOOLS

TIME = re.compile(r"(?<![\w./-])/usr/bin/time(?![\w./-])")
FILTERS = Path("/proc/sys/kernel/seccomp/actions_avail")
"""A file of kernels that filter system calls."""

EXECUTE_ONLY = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH

GNU_TIME = Path(__file__).parent.with_name("gnu_time.py")


def provide(folders: Folders, host: Host, *, time: bool, seen_at: str = TOOLS) -> None:
    """Write scripts ``python`` and ``python3`` for rai's Python, and ``time``.

    ``seen_at`` is the path of the folder of tools for a command.
    """
    programs = folders.tools / "bin"
    folders.tools.mkdir()
    python = shlex.quote(str(host.python))
    if host.wrap:
        for name in ("python", "python3"):
            _program(programs / name, f'{python} "$@"')
    if time:
        shutil.copyfile(GNU_TIME, folders.tools / GNU_TIME.name)
        call = f'{python} -I -S {shlex.quote(seen_at)}/{GNU_TIME.name} "$@"'
        _program(programs / "time", call)
        _program(folders.overlay / "time", call)


def filters() -> bool:
    """Whether system calls can be filtered here."""
    return seccomp.program(os.uname().machine) is not None and FILTERS.exists()


def write_guards(folders: Folders) -> Path | None:
    """Write what protects a sandbox from its commands, beside the tools.

    It is a copy of the shell that none may read, and the filter of system calls, whose
    path is returned; None where there can be none.
    """
    first = folders.tools / Path(FIRST).name
    shutil.copyfile("/bin/sh", first)
    first.chmod(EXECUTE_ONLY)
    program = seccomp.program(os.uname().machine)
    if program is None or not filters():
        return None
    folders.filter.write_bytes(program)
    return folders.filter


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nexec {line}\n")
    path.chmod(0o755)


def redirected(invocation: Invocation, seen_at: str = TOOLS) -> Invocation:
    """Replace /usr/bin/time in a line by the path of the replacement."""
    replacement = f"{seen_at}/bin/time".replace("\\", r"\\")
    script = invocation.script
    return Invocation(
        tuple(TIME.sub(replacement, word) for word in invocation.argv),
        invocation.why,
        None if script is None else TIME.sub(replacement, script),
    )
