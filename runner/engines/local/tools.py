"""Stand-ins for programs that the host does not have, or calls by another name."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from runner.core import Invocation
from runner.engines.folders import Folders
from runner.engines.local.host import Host
from runner.engines.local.layout import TOOLS

TIME = re.compile(r"(?<![\w./-])/usr/bin/time(?![\w./-])")
GNU_TIME = Path(__file__).parent.with_name("gnu_time.py")


def provide(folders: Folders, host: Host, *, time: bool, seen_at: str = TOOLS) -> None:
    """Write what is needed: ``python`` for the one that runs rai, and GNU time.

    ``seen_at`` is where a command finds the folder of tools.
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
        _program(folders.over / "time", call)


def _program(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\nexec {line}\n")
    path.chmod(0o755)


def redirected(invocation: Invocation, seen_at: str = TOOLS) -> Invocation:
    """Name the stand-in where a line calls GNU time and nothing lies over /usr/bin."""
    stand_in = f"{seen_at}/bin/time".replace("\\", r"\\")
    script = invocation.script
    return Invocation(
        tuple(TIME.sub(stand_in, word) for word in invocation.argv),
        invocation.why,
        None if script is None else TIME.sub(stand_in, script),
    )
