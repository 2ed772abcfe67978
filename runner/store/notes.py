"""Notes: what users write about their runs, each kept in the run's folder."""

from __future__ import annotations

from runner import files
from runner.core import Problem
from runner.core.screen import printable
from runner.store.paths import RunPaths

MOST_CHARACTERS = 500
MOST_BYTES = 4 * MOST_CHARACTERS + 1
"""As UTF-8, with the end of its line."""


def problem(note: str) -> Problem | None:
    """Return why a text cannot be a note; None if it can."""
    if not note.strip():
        return Problem("the note is empty", hint="--remove removes a run's note")
    if len(note) > MOST_CHARACTERS:
        return Problem(
            f"the note has {len(note)} characters; {MOST_CHARACTERS} are allowed"
        )
    if "\n" in note or "\t" in note or printable(note) != note:
        return Problem(
            "the note has a character that cannot be shown as it is",
            hint="write it in one line of plain text",
        )
    return None


def read(paths: RunPaths) -> str:
    """Return a run's note, "" if it has none or none that is valid."""
    try:
        if not paths.note.exists():  # most runs have none; this is the fastest to ask
            return ""
        found = files.read_below(paths.root, paths.note.name, MOST_BYTES)
        note = found.decode().strip()
    except (OSError, ValueError):
        return ""
    return "" if problem(note) else note


def write(paths: RunPaths, note: str) -> None:
    """Keep a run's note in its folder; "" for none."""
    if note:
        files.write(paths.note, f"{note}\n".encode())
    else:
        paths.note.unlink(missing_ok=True)
