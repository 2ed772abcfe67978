"""The folders that build folders were unpacked to, and when one may be replaced.

What was unpacked is recorded in rai's home: the folder's inode, and a checksum of the
names, inodes, sizes and times of all in it. Only a folder that is still the same is
ever removed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct, json

from runner import archive, files, trees
from runner.archive import Caps, Unpacked
from runner.core import Problem, written
from runner.core.errors import RaiError, UsageError
from runner.store.paths import Home

MOST_RECORDS = 1000
LONGEST_RECORD = 64 << 10


class UnpackedFolder(Struct, frozen=True):
    """A folder as it was when a build folder had been unpacked there."""

    path: str
    run: str
    device: int
    inode: int
    entries: int
    listing: str

    @property
    def stands(self) -> bool:
        """Whether the folder is still there, whatever is in it."""
        try:
            status = os.lstat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


class _ChangedError(Exception):
    """The folder is not as it was."""


def bring_back(
    build: Path, into: Path, caps: Caps, home: Home, project: Path, *, force: bool
) -> Unpacked:
    """Unpack a run's build folder, and record it; ``force`` replaces an earlier one.

    Raises:
        UsageError: ``into`` is taken, and with ``force`` by something else.
        RaiError: the archive is damaged or hostile; what was there is still there.
    """
    into = place(into)
    check(into, home.root, project, force=force)
    if not archive.taken(into):
        done = archive.unpack(build, into, caps, root="build")
        _record(home, into, build.parent.name)
        return done
    if (known := _known(home, into)) is None:
        raise _changed(into)
    done, old = _replaced(build, into, caps, known)
    _record(home, into, build.parent.name)
    # A program that was in it may have gone on writing.
    if not _unchanged(old, known):
        text = f"{into} changed while it was replaced; what it held is in {old}"
        raise UsageError(Problem(text, hint="keep what you need, and remove the rest"))
    trees.remove(old.parent)
    return done


def check(into: Path, home: Path, project: Path, *, force: bool) -> None:
    """Refuse a folder that is taken; with ``force``, one that may not be replaced.

    Raises:
        UsageError: with what to do.
    """
    into = place(into)
    if not archive.taken(into):
        return
    if not force:
        hint = "--force replaces it" if _known(Home(home), into) else ""
        hint = ", or ".join(filter(None, (hint, "choose a new folder")))
        raise UsageError(Problem(f"{into} exists already", hint=hint))
    if why := _refusal(into, home, project):
        hint = "remove it yourself, or choose a new folder"
        text = f"--force does not replace {into}: {why}"
        raise UsageError(Problem(text, hint=hint))


def inside(home: Path, project: Path) -> dict[str, str]:
    """Return the folders in a project that rai made, by name, and why they stay.

    Raises:
        UsageError: rai's home is the project's folder itself.
    """
    root, home, found = project.resolve(), home.resolve(), dict[str, str]()
    if home == root:
        text = f"the project's folder {root} is rai's own home folder too"
        raise UsageError(Problem(text, hint="set RAI_HOME to another folder"))
    if home.is_relative_to(root):
        found[str(home.relative_to(root))] = "built in: rai's own home folder"
    for one in _records(Home(home)):
        path = Path(one.path)
        if path.is_relative_to(root) and path != root and one.stands:
            why = f"the build folder of run {one.run}, unpacked by rai"
            found[str(path.relative_to(root))] = why
    return found


def place(folder: Path) -> Path:
    """Return the absolute path of a folder; only its last part may be a link."""
    if folder.name in ("", ".."):
        return folder.resolve()
    return folder.parent.resolve() / folder.name


def _refusal(into: Path, home: Path, project: Path) -> str:
    """Return why a folder may not be replaced, "" if it may."""
    if into.is_symlink():
        return "it is a link"
    if not into.is_dir():
        return "it is not a folder"
    if into.is_mount():
        return "a file system is mounted there"
    if into.is_relative_to(home.resolve()):
        return "it is part of rai's own home folder"
    for name, path in (
        ("your home folder", Path.home()),
        ("the project", project),
        ("rai's own home folder", home),
        ("the current folder", Path.cwd()),
    ):
        if path.resolve().is_relative_to(into):
            return f"it is, or contains, {name}"
    known = _known(Home(home), into)
    if known is None:
        return "rai did not unpack it, or does not know any more that it did"
    if not _unchanged(into, known):
        return f"it has changed since run {known.run} was unpacked there"
    return ""


def _replaced(
    build: Path, into: Path, caps: Caps, known: UnpackedFolder
) -> tuple[Unpacked, Path]:
    """Unpack in place of a folder, which comes back if that fails.

    Return where it is now, alone in a folder of its own.
    """
    aside = archive.folder_beside(into)
    old = aside / into.name
    into.rename(old)
    try:
        # Nobody finds it by its name any more; it may have changed before.
        if not _unchanged(old, known):
            raise _changed(into)
        done = archive.unpack(build, into, caps, root="build")
    except BaseException:
        if not os.path.lexists(into):
            old.rename(into)
        with suppress(OSError):
            aside.rmdir()
        raise
    return done, old


def _changed(into: Path) -> UsageError:
    return UsageError(f"{into} changed meanwhile, and was not replaced")


def _record(home: Home, folder: Path, run: str) -> None:
    """Record what was unpacked; without room for that it is never replaced."""
    status = folder.stat()
    entries, listing = _listing(folder)
    one = UnpackedFolder(
        str(folder), run, status.st_dev, status.st_ino, entries, listing
    )
    try:
        home.outputs.mkdir(parents=True, exist_ok=True)
        files.write(_file(home, folder), written.encode(one))
    except (OSError, RaiError):
        return
    for old in _paths(home)[MOST_RECORDS:]:
        old.unlink(missing_ok=True)


def _known(home: Home, folder: Path) -> UnpackedFolder | None:
    one = _read(_file(home, folder))
    return one if one and one.path == str(folder) else None


def _file(home: Home, folder: Path) -> Path:
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
    return home.outputs / f"{name}.json"


def _records(home: Home) -> Iterator[UnpackedFolder]:
    return filter(None, map(_read, _paths(home)))


def _paths(home: Home) -> list[Path]:
    """Return the files of the records, the latest first."""
    try:
        found = [(path.stat().st_mtime, path) for path in home.outputs.glob("*.json")]
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _read(path: Path) -> UnpackedFolder | None:
    try:
        raw = files.read_below(path.parent, path.name, LONGEST_RECORD)
        return json.decode(raw, type=UnpackedFolder)
    except (OSError, DecodeError):
        return None


def _unchanged(folder: Path, known: UnpackedFolder) -> bool:
    try:
        status = folder.lstat()
        same = (status.st_dev, status.st_ino) == (known.device, known.inode)
        return same and _listing(folder, known.entries) == (
            known.entries,
            known.listing,
        )
    except (OSError, trees.TooManyError, _ChangedError):
        return False


def _listing(folder: Path, most: int | None = None) -> tuple[int, str]:
    """Return the number and a checksum of all entries below a folder.

    Raise trees.TooManyError for more than ``most``, _ChangedError for another file
    system in it.
    """
    device, digest, count = folder.stat().st_dev, hashlib.sha256(), 0
    for entry in trees.entries(folder, most=most):
        count += 1
        status = entry.info
        if status.st_dev != device:
            raise _ChangedError
        name = os.fsencode("/".join([*entry.above, entry.name]))
        facts = (status.st_mode, status.st_ino, status.st_size)
        times = (status.st_mtime_ns, status.st_ctime_ns)
        digest.update(b"%d %b %a\n" % (len(name), name, (*facts, *times)))
    return count, digest.hexdigest()
