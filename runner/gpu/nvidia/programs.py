"""Find the driver's and the container toolkit's programs, and run nvidia-smi."""

from __future__ import annotations

import os
from pathlib import Path

from runner import process
from runner.core.errors import EngineError
from runner.gpu.nvidia import smi

SMI = "nvidia-smi"
SMI_S = 20.0
HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
"""The programs that Docker searches on its PATH to serve a device request."""

FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/local/nvidia/bin",
    "/usr/local/nvidia/toolkit",
    "/usr/lib/wsl/lib",
    "/run/current-system/sw/bin",
)


def path(root: Path, *names: str) -> str:
    """Return the path of the first of these programs that exists; empty if none."""
    searched = os.environ.get("PATH", "").split(":") if root == Path("/") else []
    folders = dict.fromkeys(filter(None, [*searched, *FOLDERS]))
    places = (f"{folder}/{name}" for name in names for folder in folders)
    return next((p for p in places if os.access(under(root, p), os.X_OK)), "")


def under(root: Path, path: str) -> str:
    """Return a path below ``root``; empty for an empty path."""
    return str(root / path.lstrip("/")) if path else ""


def run_smi(root: Path) -> smi.SmiReport:
    """Run nvidia-smi; ``problem`` says why it failed."""
    program = path(root, SMI)
    if not program:
        return smi.SmiReport(problem=f"{SMI} is not found")
    output = b""
    for words in (smi.QUERY, smi.PROCESSES):
        try:
            argv = [under(root, program), *words[1:]]
            done = process.run(argv, timeout_s=SMI_S)
        except EngineError as error:
            return smi.SmiReport(problem=str(error))
        output += done.stdout + done.stderr
    return smi.parse(output.decode(errors="replace"), processes=True)
