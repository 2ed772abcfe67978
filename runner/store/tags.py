"""Tags and notes: what users name their runs and write about them; in their folders."""

from __future__ import annotations

import re
from pathlib import Path

from runner import files
from runner.core import Problem
from runner.core.screen import printable
from runner.store.paths import RunPaths

MOST_CHARACTERS = 64
RESERVED = ("latest",)
LONGEST_NOTE = 500

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
    tag = _read(paths.tag, MOST_CHARACTERS + 1)
    return "" if problem(tag) else tag


def write(file: Path, text: str) -> None:
    """Keep a run's tag or note in its file; "" for none."""
    if text:
        files.write(file, f"{text}\n".encode())
    else:
        file.unlink(missing_ok=True)


def note_problem(note: str) -> Problem | None:
    """Return why a text cannot be a note; None if it can."""
    if not note.strip():
        return Problem("the note is empty")
    if len(note) > LONGEST_NOTE:
        return Problem(
            f"the note has {len(note)} characters; {LONGEST_NOTE} are allowed"
        )
    if "\n" in note or "\t" in note or printable(note) != note:
        return Problem(
            "the note has a character that cannot be shown as it is",
            hint="write it in one line of plain text",
        )
    return None


def note(paths: RunPaths) -> str:
    """Return a run's note, "" if it has none or none that is valid."""
    found = _read(paths.note, 4 * LONGEST_NOTE + 1)  # as UTF-8, with its line's end
    return "" if note_problem(found) else found


def _read(file: Path, most_bytes: int) -> str:
    """Return the text of a file, "" if there is none that can be read."""
    try:
        if not file.exists():  # most runs have none; this is the fastest to ask
            return ""
        return files.read_below(file.parent, file.name, most_bytes).decode().strip()
    except (OSError, ValueError):
        return ""
