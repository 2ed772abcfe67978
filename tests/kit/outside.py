"""Files that are not ours to publish, for the tests marked `data`.

RAI_SHARED_DATA names a folder with fashion-mnist/, course-models/, transcripts/ and
rai_build/. Without it these tests are deselected.
"""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path | None:
    """Return the folder, where one is named."""
    named = os.environ.get("RAI_SHARED_DATA")
    return Path(named) if named else None


def path(*names: str) -> Path:
    """Name a file in it; in no folder, one that does not exist."""
    return Path(folder() or "/nowhere", *names)


def fashion_mnist() -> str:
    """Name the folder of the published images."""
    return str(path("fashion-mnist"))
