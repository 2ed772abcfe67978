"""The jobs that docs/ci.md shows, as files."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ci.md"
BLOCK = re.compile(r"^```yaml\n(?P<text>.*?)^```\n", re.S | re.M)


def blocks() -> list[str]:
    """Return what the page shows as YAML."""
    return [found["text"] for found in BLOCK.finditer(PAGE.read_text())]


def workflows(folder: Path) -> list[Path]:
    """Return files with the page's workflows for GitHub, in a folder."""
    found = [text for text in blocks() if re.search(r"^jobs:$", text, re.M)]
    return [_written(folder / f"page-{n}.yml", text) for n, text in enumerate(found)]


def gitlab(folder: Path) -> Path:
    """Return a file with the page's job for GitLab, in a folder."""
    (text,) = (text for text in blocks() if re.search(r"^  script:$", text, re.M))
    return _written(folder / ".gitlab-ci.yml", text)


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file
