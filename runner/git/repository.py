"""Where a repository keeps its parts, and git in an empty one that uses them.

The settings of a repository and its submodules can name programs: hooks, filters,
transports, monitors. So git is never run with them. HEAD and the refs are read here,
and git runs in an empty temporary repository that uses the project's objects.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from runner import files, machine

SMALL_BYTES = 1 << 20
PACKED_REFS_BYTES = 1 << 26
MEMORY_KIB = 4 << 20
MOST_REFS = 5

ALTERNATES = "info/alternates"
"""Where a repository lists others whose objects are its own too."""

COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_SHA256_DIGITS = 64

_WITHIN_LIMITS = ("/bin/sh", "-c", f'ulimit -v {MEMORY_KIB} 2>/dev/null; exec "$@"')
GIT = (
    *_WITHIN_LIMITS,
    *("rai", "git"),
    # Map large packs piece by piece, to stay below the memory limit.
    *("-c", "core.packedGitWindowSize=32m"),
    *("-c", "core.packedGitLimit=512m"),
)
"""The beginning of a command line that runs git within a limit of memory."""


class Repository(Struct, frozen=True):
    """The paths of a working tree, its own git folder and the shared one."""

    tree: Path
    own: Path
    shared: Path


def around(project: Path) -> Repository | None:
    """Return the repository that a folder is in; None outside of any."""
    folders = (project, *project.parents)
    return next(filter(None, map(_repository, folders)), None)


def _repository(folder: Path) -> Repository | None:
    try:
        own = Path(os.path.realpath(folder / ".git"))
        if not own.is_dir():
            word, _, place = text_below(folder, ".git").partition(": ")
            if word != "gitdir":
                return None
            own = Path(os.path.realpath(folder / place))
        text_below(own, "HEAD")
        try:
            shared = Path(os.path.realpath(own / text_below(own, "commondir")))
        except FileNotFoundError:
            shared = own
    except (OSError, ValueError):
        return None
    return Repository(folder, own, shared)


def followed(repository: Repository, name: str) -> tuple[str, str]:
    """Return what a ref leads to, and the branch that it names on the way, if any."""
    text, branch = _ref(repository, name), ""
    for _ in range(MOST_REFS):
        if not text.startswith("ref: refs/"):
            break
        name = text.removeprefix("ref: ")
        branch = branch or name.removeprefix("refs/heads/")
        text = _ref(repository, name)
    return text, branch


def _ref(repository: Repository, name: str) -> str:
    for folder in (repository.own, repository.shared):
        try:
            return text_below(folder, name)
        except (OSError, ValueError):
            continue
    try:
        packed = files.read_below(repository.shared, "packed-refs", PACKED_REFS_BYTES)
    except OSError:
        return ""
    line = rb"^([0-9a-f]+) " + re.escape(os.fsencode(name)) + b"$"
    match = re.search(line, packed, re.MULTILINE)
    return match[1].decode() if match else ""


def text_below(folder: Path, name: str) -> str:
    """Return a small text file of a git folder; raise OSError if there is none."""
    return os.fsdecode(files.read_below(folder, name, SMALL_BYTES)).strip()


def borrows(repository: Repository) -> bool:
    """Whether git would read objects elsewhere, wherever a list or a link of it leads.

    So a project could name any file on this machine that git can read.
    """
    objects = repository.shared / "objects"
    if os.path.lexists(objects / ALTERNATES):
        try:
            if text_below(objects, ALTERNATES):
                return True
        except OSError:
            return True
    return objects.is_symlink() or _has_links(objects) or _has_links(objects / "pack")


def _has_links(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.is_symlink() for entry in entries)
    except OSError:
        return False


@contextmanager
def emptied(commit: str) -> Iterator[Path]:
    """Make a repository with nothing but a HEAD, for a while."""
    prefix = f"rai-git-{machine.this_process().tag}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder:
        own = Path(folder)
        _make_empty(own, commit)
        yield own


def _make_empty(own: Path, commit: str) -> None:
    for name in ("info", "objects", "refs"):
        (own / name).mkdir()
    (own / "HEAD").write_text(f"{commit}\n")
    if len(commit) == _SHA256_DIGITS:
        version = "[core]\nrepositoryformatversion = 1\n"
        (own / "config").write_text(f"{version}[extensions]\nobjectFormat = sha256\n")


def environment(own: Path, repository: Repository) -> dict[str, str]:
    """Return the variables for git in an empty repository with another's objects."""
    hidden = ("GIT_", "XDG_CONFIG_HOME")
    kept = {name: v for name, v in os.environ.items() if not name.startswith(hidden)}
    return kept | {
        "HOME": str(own),
        "GIT_DIR": str(own),
        "GIT_OBJECT_DIRECTORY": str(repository.shared / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }
