"""What a side of a bench is: a folder, or a commit whose files are written out."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from runner import git, trees
from runner.archive import source as sources
from runner.archive.meter import ArchiveMeter, DamagedError, OverCapsError
from runner.core import Problem
from runner.core.cancel import Cancel
from runner.core.caps import Caps
from runner.core.errors import EngineError, UsageError
from runner.core.screen import printable
from runner.core.units import GIB
from runner.git import ProjectCommit

COMMIT_CAPS = Caps(total_bytes=2 * GIB, members=200_000, file_bytes=2 * GIB)
"""What a commit may hold. The settings limit what of it a run may send."""


_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_BYTES = 1024
"""Git LFS writes shorter pointers only (docs/spec.md of git-lfs)."""


class BenchSource(Struct, frozen=True):
    """One side: ``commit``, else the project's folder or build file at ``path``."""

    path: Path
    commit: ProjectCommit | None = None

    @property
    def shown(self) -> str:
        """What it is, for a message."""
        if self.commit is None:
            return f"the folder {printable(str(self.path))}"
        name, short = printable(self.commit.asked), self.commit.short
        return f"commit {short}" + ("" if short.startswith(name) else f" ({name})")


def source(text: str | None, project: Path) -> BenchSource:
    """Return the side that a word names; without one it is the project as it is now.

    A word with a slash, ``.`` or ``..`` is a path if there is one; another word is a
    commit of the project's repository, or else a folder.

    Raises:
        UsageError: it is neither, or both.
    """
    if text is None:
        return BenchSource(project)
    path = Path(text)
    exists = bool(text) and path.exists()
    if exists and ("/" in text or text in (".", "..")):
        return BenchSource(path)
    try:
        found = git.find(project if project.is_dir() else project.parent, text)
    except UsageError:
        if exists:
            return BenchSource(path)
        raise
    if found is not None and exists:
        hint = f"./{text} is the folder, {found.short} the commit"
        raise UsageError(Problem(f"{text} is a folder and a commit", hint=hint))
    if found is not None:
        return BenchSource(project, found)
    if exists:
        return BenchSource(path)
    raise UsageError(git.unknown(project, text))


def write_out(commit: ProjectCommit, into: Path, cancel: Cancel) -> Path:
    """Write a commit's files to a new folder; return the project's folder in it.

    Raises:
        UsageError: it cannot be read, is hostile, or holds more than ``COMMIT_CAPS``.
        RaiError: it was cancelled (cancelled).
    """
    into.mkdir()
    packed, meter = into / "commit.tar", ArchiveMeter(COMMIT_CAPS)
    files = into / "files"
    files.mkdir()
    try:
        pieces = git.files_of(commit, COMMIT_CAPS.total_bytes, cancel)
        with packed.open("wb") as file, closing(pieces):
            for piece in pieces:
                meter.feed(piece)
                file.write(piece)
        with packed.open("rb") as stream:
            sources.unpack(stream, files)
    except (OverCapsError, DamagedError) as error:
        raise UsageError(f"commit {commit.short} {error}") from error
    except EngineError as error:
        text = "; ".join(problem.message for problem in error.problems)
        raise UsageError(f"commit {commit.short}: {text}") from error
    finally:
        packed.unlink(missing_ok=True)
    return files / commit.folder


def pointers(folder: Path) -> int:
    """Return how many files of a commit are pointers of Git LFS."""
    count = 0
    for entry in trees.entries(folder):
        if stat.S_ISREG(entry.info.st_mode) and entry.info.st_size < _POINTER_BYTES:
            with open(trees.opened(entry), "rb") as file:  # noqa: PTH123 - a descriptor
                count += file.read(len(_POINTER)) == _POINTER
    return count
