"""Programs in C that cases bring along: static, so that they run in every image."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.kit.kept import kept

FLAGS = ("-static", "-O1", "-Wall", "-Werror", "-pthread")


def built(name: str, folder: Path) -> Path:
    """Return the program that NAME.c makes, kept in a folder."""
    source = Path(__file__).with_name(f"{name}.c")

    def make(place: Path) -> None:
        command = ["gcc", *FLAGS, "-o", place / name, source]
        subprocess.run(command, check=True)

    return kept(folder, [source, " ".join(FLAGS).encode()], make) / name
