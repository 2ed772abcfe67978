"""Tags: names that users give their runs, each kept in the run's folder."""

from __future__ import annotations

import re

from runner import files
from runner.core import Problem
from runner.store.paths import RunPaths

MOST_CHARACTERS = 64
RESERVED = ("latest",)

_TAG = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_CHARACTERS - 1}}}")
_LIKE_AN_ID = re.compile(r"[0-9a-f]+")


def problem(tag: str) -> Problem | None:
    """Return why a text cannot be a tag; None if it can."""
    if tag in RESERVED:
        return Problem(
            f"{tag!r} cannot be a tag: it names the newest run",
            hint="choose another name",
        )
    if not _TAG.fullmatch(tag):
        return Problem(
            f"{tag[:80]!r} cannot be a tag",
            hint=f"use at most {MOST_CHARACTERS} letters, digits, dots, underscores and"
            " hyphens; begin with a letter or a digit",
        )
    if _LIKE_AN_ID.fullmatch(tag):
        return Problem(
            f"{tag!r} cannot be a tag: it reads as the beginning of a run's id",
            hint=f"use a character other than 0-9 and a-f, as in run-{tag}",
        )
    return None


def read(paths: RunPaths) -> str:
    """Return a run's tag, "" if it has none or none that is valid."""
    try:
        if not paths.tag.exists():  # most runs have none; this is the fastest to ask
            return ""
        found = files.read_below(paths.root, paths.tag.name, MOST_CHARACTERS + 1)
        tag = found.decode("ascii").strip()
    except (OSError, ValueError):
        return ""
    return "" if problem(tag) else tag


def write(paths: RunPaths, tag: str) -> None:
    """Keep a run's tag in its folder; "" for none."""
    if tag:
        files.write(paths.tag, f"{tag}\n".encode())
    else:
        paths.tag.unlink(missing_ok=True)
