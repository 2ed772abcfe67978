"""The driver's and the container toolkit's programs: where they are, what they say."""

from __future__ import annotations

import os
from pathlib import Path

from runner import process
from runner.core.errors import EngineError
from runner.gpu.nvidia import smi

SMI = "nvidia-smi"
SMI_S = 20.0
HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
"""What Docker looks for on its PATH to serve a device request, new and old."""

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
    """Give the path of the first of these programs that is there; empty for none."""
    searched = os.environ.get("PATH", "").split(":") if root == Path("/") else []
    folders = dict.fromkeys(filter(None, [*searched, *FOLDERS]))
    places = (f"{folder}/{name}" for name in names for folder in folders)
    return next((p for p in places if os.access(under(root, p), os.X_OK)), "")


def under(root: Path, path: str) -> str:
    """Give a path of the machine whose files lie under ``root``; empty stays empty."""
    return str(root / path.lstrip("/")) if path else ""


def ask_smi(root: Path) -> smi.Answer:
    """Have nvidia-smi tell what it can; its ``problem`` says why it cannot."""
    program = path(root, SMI)
    if not program:
        return smi.Answer(problem=f"{SMI} is not found")
    said = b""
    for words in (smi.QUERY, smi.LIST, smi.PROCESSES):
        try:
            argv = [under(root, program), *words[1:]]
            done = process.run(argv, timeout_s=SMI_S)
        except EngineError as error:
            return smi.Answer(problem=str(error))
        said += done.stdout + done.stderr
    return smi.parse(said.decode(errors="replace"), processes=True)
