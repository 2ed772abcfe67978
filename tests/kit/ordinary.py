"""Become an ordinary user, in a test that root runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.kit.needs import ROOT
from tests.kit.program import run_program

USER = "4321"


def as_ordinary_user(
    argv: list[str], home: Path, *, group: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as a user who is no one in particular, from a root's test.

    The user is in one more ``group``, if that is given.
    """
    groups = ["--clear-groups"] if group is None else ["--groups", str(group)]
    program = as_user(["--reuid", USER, "--regid", USER, *groups], argv)
    env = os.environ | {"HOME": str(home), "TMPDIR": str(home)}
    return run_program(program, cwd=ROOT, env=env)


def as_user(ids: list[str], argv: list[str]) -> list[str]:
    """Return the words that run a program as a user, whose ``ids`` are setpriv's.

    What lies in root's home and is needed is shown at its place, and nothing else.
    """
    wanted = {str(ROOT), sys.prefix, sys.base_prefix}
    hidden = sorted(path for path in wanted if Path(path).is_relative_to("/root"))
    lines = ["set -e", "held=$(mktemp -d)", "mkdir $held/{0..9}"]
    for n, path in enumerate(hidden):
        lines.append(f"mount --bind {shlex.quote(path)} $held/{n}")
    lines.append("mount -t tmpfs -o mode=755 tmpfs /root")
    for n, path in enumerate(hidden):
        lines.append(f"mkdir -p {shlex.quote(path)}")
        lines.append(f"mount --move $held/{n} {shlex.quote(path)}")
    become = f"setpriv {shlex.join(ids)}"
    lines.append(f'rm -rf --one-file-system "$held"; exec {become} "$@"')
    return ["unshare", "--mount", "bash", "-c", "\n".join(lines), "bash", *argv]
