"""Tags and notes: what users name their runs and write about them; in their folders."""

from __future__ import annotations

import re

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
    try:
        if not paths.note.exists():  # most runs have none; this is the fastest to ask
            return ""
        most = 4 * LONGEST_NOTE + 1  # as UTF-8, with the end of its line
        found = files.read_below(paths.root, paths.note.name, most).decode().strip()
    except (OSError, ValueError):
        return ""
    return "" if note_problem(found) else found


def write_note(paths: RunPaths, note: str) -> None:
    """Keep a run's note in its folder; "" for none."""
    if note:
        files.write(paths.note, f"{note}\n".encode())
    else:
        paths.note.unlink(missing_ok=True)
