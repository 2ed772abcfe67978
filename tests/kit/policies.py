"""Policies for tests: files that only the tests' user may change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from runner.core.policy import Policy
from runner.store import policy
from tests.kit.program import run_program

ME = os.getuid()

MOUNT = "/mnt"
"""A folder that every machine has, for a mount that only one process sees."""


def written(folder: Path, text: str) -> Path:
    """Write a policy in a folder of its own, as a site's is."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    file = folder / "policy.yml"
    file.write_text(text)
    file.chmod(0o644)
    return file


def read(folder: Path, text: str) -> Policy:
    """Write a policy and read it."""
    return policy.read(written(folder, text), ME)


def under(
    folder: Path, text: str, words: list[str], environ: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run rai where ``text`` is this machine's policy; needs root.

    In a mount namespace of its own /etc is a copy, so that no other run sees it.
    """
    written(folder, text)
    lines = (
        f"mount -t tmpfs none {MOUNT}; cp -a /etc/. {MOUNT}; mkdir -p {MOUNT}/rai;"
        f' cp "$1" {MOUNT}/rai; mount --bind {MOUNT} /etc; shift; exec "$@"'
    )
    rai = Path(sys.executable).with_name("rai")
    program = ["unshare", "--mount", "sh", "-ec", lines, "sh", folder / "policy.yml"]
    return run_program(
        [*program, rai, *words], env={**os.environ, **environ}, timeout=60
    )
