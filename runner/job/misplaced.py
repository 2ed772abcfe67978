"""What to do about a command that looks for the project's files in the build folder."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator
from pathlib import Path

from runner import archive
from runner.core.caps import UPLOAD, Caps
from runner.core.errors import RaiError

_MOVES = ("cd", "pushd")
"""After these the current folder may be any."""


def hint(line: str, source: Path, build: Path, caps: Caps) -> str:
    """Return what to do if a failed command names a file of the project as if here.

    ``source`` and ``build`` are the run's archives. Return "" if it names none, or if
    the build folder has a file of this name too.
    """
    named = list(dict.fromkeys(_relative(line)))
    if not named:
        return ""
    try:
        ours = archive.files(source, UPLOAD)
        made = archive.files(build, caps, root="build")
    except (RaiError, OSError):
        return ""
    file = next((name for name in named if name in ours and name not in made), None)
    if file is None:
        return ""
    return (
        f"Write `$RAI_SOURCE_DIR/{file}`: your files are in /src (`$RAI_SOURCE_DIR`);"
        " the current folder is /build, which is empty at first."
    )


def _relative(line: str) -> Iterator[str]:
    """Yield the words of a command line that look like files of the current folder."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = ""
    try:
        found = list(words)
    except ValueError:  # an open quote
        return
    if any(word in _MOVES or word.startswith("-C") for word in found):
        return
    for word in found:
        if word[:1] not in "-/$~" and ("." in word or "/" in word):
            name = posixpath.normpath(word)
            if not name.startswith(".."):
                yield name
