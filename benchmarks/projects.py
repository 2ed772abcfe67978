"""Small projects to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RAI = str(Path(sys.executable).with_name("rai"))

TRUE = """\
rai: {version: 0.2, image: "debian:bookworm-slim"}
commands:
  build:
    - "true"
"""


def write(folder: Path, spec: str, files: dict[str, str] | None = None) -> Path:
    """Make a project's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rai_build.yml").write_text(spec)
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    return folder


def rai_run(project: Path, *words: str) -> None:
    """Run a project quietly; its failure ends the benchmark."""
    command = [RAI, "run", "-p", str(project), "--progress", "quiet", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
