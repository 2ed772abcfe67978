"""Make small projects to run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tools.benchmarks import rows

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


def in_own_image(folder: Path, spec: str) -> Path:
    """Make a project with our milestones that runs in the image of the default job."""
    write(folder, spec)
    for name in ("Dockerfile", ".dockerignore", ".raiignore"):
        shutil.copy(rows.ROOT / name, folder / name)
    for name in ("image", "project"):
        shutil.copytree(rows.ROOT / name, folder / name)
    return folder


def gpu_here() -> bool:
    """Return whether there is a GPU; print a message if there is none."""
    if shutil.which("nvidia-smi") is None:
        print("no GPU found: not measured")
        return False
    return True


def rai_run(project: Path, *words: str) -> None:
    """Run a project without its output; raise an error if it fails."""
    command = [RAI, "run", "-p", str(project), "-q", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
