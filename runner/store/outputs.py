"""Build folders that were unpacked elsewhere, and pages that a browser is shown."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct, json

from runner import pack
from runner.core import Problem
from runner.core.errors import ConfigError, UsageError
from runner.pack import RUN_FILE, Caps, Unpacked
from runner.store.paths import WRITABLE, Home
from runner.system import files, trees

LONGEST_LIST = 32 << 20
"""The most bytes of the file; a folder that takes more is never replaced."""

NAMED = 3
"""How many of the entries that differ are named."""

Facts = tuple[str, int, int]
"""What an entry is, its size and its time of change in ns; 0 for a folder."""


class UnpackedList(Struct, frozen=True):
    """What a folder held when a run's build folder had been unpacked there.

    Names are percent-encoded, as their bytes may be any.
    """

    run: str
    entries: dict[str, Facts]


def bring_back(
    build: Path, into: Path, caps: Caps, project: Path, *, force: bool
) -> Unpacked:
    """Unpack a run's build folder, and list it; ``force`` replaces an earlier one.

    Raises:
        UsageError: ``into`` is taken, and with ``force`` by something else.
        RaiError: the archive is damaged or hostile; what was there is still there.
    """
    into = place(into)
    check(into, project, force=force)
    if not pack.taken(into):
        return _unpacked(build, into, caps)
    aside = pack.folder_beside(into)
    old = aside / into.name
    into.rename(old)
    try:
        # Nobody finds it by its name any more; it may have changed before.
        if _difference(old):
            raise UsageError(f"{into} changed meanwhile, and was not replaced")
        done = _unpacked(build, into, caps)
    except BaseException:
        if not os.path.lexists(into):
            old.rename(into)
        with suppress(OSError):
            aside.rmdir()
        raise
    # A program that was in it may have gone on writing.
    if _difference(old):
        text = f"{into} changed while it was replaced; what it held is in {old}"
        raise UsageError(Problem(text, hint="keep what you need, and remove the rest"))
    trees.remove(aside)
    return done


def check(into: Path, project: Path, *, force: bool) -> None:
    """Refuse a folder that is taken; with ``force``, one that may not be replaced.

    Raises:
        UsageError: with what to do.
    """
    into = place(into)
    if not pack.taken(into):
        return
    if not force:
        hint = "--force replaces it" if _read(into) else ""
        hint = ", or ".join(filter(None, (hint, "choose a new folder")))
        raise UsageError(Problem(f"{into} exists already", hint=hint))
    if why := _refusal(into, project):
        hint = "remove it yourself, or choose a new folder"
        text = f"--force does not replace {into}: {why}"
        raise UsageError(Problem(text, hint=hint))


def home_within(home: Path, project: Path) -> str:
    """Return the name of rai's home in a project, "" if it is elsewhere.

    Raises:
        UsageError: rai's home is the project's folder itself.
    """
    root, home = project.resolve(), home.resolve()
    if home == root:
        text = f"the project's folder {root} is rai's own home folder too"
        raise UsageError(Problem(text, hint="set RAI_HOME to another folder"))
    return str(home.relative_to(root)) if home.is_relative_to(root) else ""


def place(folder: Path) -> Path:
    """Return the absolute path of a folder; only its last part may be a link."""
    if folder.name in ("", ".."):
        return folder.resolve()
    return folder.parent.resolve() / folder.name


def _refusal(into: Path, project: Path) -> str:
    """Return why a folder may not be replaced, "" if it may."""
    if into.is_symlink():
        return "it is a link"
    if not into.is_dir():
        return "it is not a folder"
    if into.is_mount():
        return "a file system is mounted there"
    for name, path in (
        ("your home folder", Path.home()),
        ("the project", project),
        ("the current folder", Path.cwd()),
    ):
        if path.resolve().is_relative_to(into):
            return f"it is, or contains, {name}"
    return _difference(into)


def _unpacked(build: Path, into: Path, caps: Caps) -> Unpacked:
    """Unpack to a new folder and list it; without room for the list it is kept too."""
    done = pack.unpack(build, into, caps, root="build")
    listed, size = dict[str, Facts](), 0
    for name, facts in _entries(into):
        size += len(name)
        if size > LONGEST_LIST:
            return done
        listed[name] = facts
    data = json.encode(UnpackedList(build.parent.name, listed))
    if len(data) <= LONGEST_LIST:
        with suppress(OSError):
            files.write(into / RUN_FILE, data)
    return done


def _difference(folder: Path) -> str:
    """Return how a folder differs from its list, "" if it does not."""
    if (known := _read(folder)) is None:
        return f"rai did not unpack it: it has no {RUN_FILE} that can be read"
    found = list(islice(_differing(folder, known.entries), NAMED + 1))
    shown = ", ".join(found[:NAMED]) + (" and more" if len(found) > NAMED else "")
    return f"since run {known.run!r} was unpacked there {shown}" if found else ""


def _differing(folder: Path, listed: dict[str, Facts]) -> Iterator[str]:
    seen = set[str]()
    for name, facts in _entries(folder):
        seen.add(name)
        if listed.get(name) != facts:
            yield f"{name!r} was {'changed' if name in listed else 'added'}"
    yield from (f"{name!r} was removed" for name in listed if name not in seen)


def _entries(folder: Path) -> Iterator[tuple[str, Facts]]:
    """Yield what is below a folder, but for the list itself."""
    for entry in trees.entries(folder):
        name = quote("/".join(chain(entry.above, [entry.name])), "/ ", errors=_BYTES)
        if name == RUN_FILE:
            continue
        info = entry.info
        kind = _KINDS.get(stat.S_IFMT(info.st_mode), "special")
        is_folder = kind == "folder"
        facts = (0, 0) if is_folder else (info.st_size, info.st_mtime_ns)
        yield name, (kind, *facts)


_BYTES = "surrogateescape"
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


def _read(folder: Path) -> UnpackedList | None:
    return files.read_json(folder / RUN_FILE, LONGEST_LIST, UnpackedList)


KEPT_S = 24 * 3600
"""A browser may read a page again as long as it is open."""


_SUFFIXES = (".html", ".md", ".json", ".xml")


def keep_page(home: Home, what: str, page: str, suffix: str = ".html") -> Path:
    """Write a page under a new name, which begins with ``what``; return its path.

    Pages that are older than a day are removed.

    Raises:
        ConfigError: it cannot be written.
    """
    path = home.pages / f"{what}-{secrets.token_hex(8)}{suffix}"
    try:
        home.pages.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in home.pages.iterdir():
            with suppress(OSError):
                age_s = time.time() - old.lstat().st_mtime
                if old.suffix in _SUFFIXES and age_s > KEPT_S:
                    old.unlink()
        files.write(path, page.encode(errors="replace"))
    except OSError as error:
        text = f"{home.pages} cannot be written: {error.strerror}"
        hint = f"{WRITABLE}, or name a file with -o"
        raise ConfigError(Problem(text, hint=hint)) from error
    return path
