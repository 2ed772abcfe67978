"""What of a project folder is sent, and what is left out and why."""

from __future__ import annotations

import heapq
import os
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from runner.archive.caps import Caps
from runner.archive.ignore import Rules, rules_of
from runner.core import Problem

DEEPEST = 200
"""The most folders within folders; more is a loop or a mistake."""

VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})


class MemberKind(StrEnum):
    """What a member of an archive is."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


class Member(Struct, frozen=True):
    """A file, folder or link to send; ``name`` is relative, with slashes."""

    name: str
    kind: MemberKind
    size_bytes: int = 0
    executable: bool = False
    target: str = ""


class LeftOut(Struct, frozen=True):
    """What is not sent; a folder's name ends with a slash and stands for all in it.

    ``why`` is the rule with its place (``.gitignore:3: *.o``) or a sentence.
    """

    name: str
    why: str


class Survey(Struct, frozen=True):
    """What `rai run --dry-run` shows and ``pack`` sends.

    ``rules`` is the file whose rules apply, "" for none. ``problems`` are warnings
    about rules, and errors for what cannot be read: with an error ``pack`` refuses.
    """

    project: Path
    rules: str
    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def total_bytes(self) -> int:
        """The size of all files together."""
        return sum(m.size_bytes for m in self.members)

    def largest(self, count: int = 5) -> list[Member]:
        """Return the largest files, largest first."""
        files = (m for m in self.members if m.kind is MemberKind.FILE)
        return heapq.nlargest(count, files, key=lambda m: m.size_bytes)

    def exceeded(self, caps: Caps) -> list[Problem]:
        """Return which ceilings this exceeds, and the largest entries."""
        found = list(self._exceeded(caps))
        if not found:
            return []
        rows = [f"{m.name!r}, {_megabytes(m.size_bytes)}" for m in self.largest()]
        advice = f"add what is not needed to {self.rules or '.raiignore'}"
        return [Problem(text) for text in found] + [
            Problem("the largest entries are " + "; ".join(rows), hint=advice)
        ]

    def _exceeded(self, caps: Caps) -> Iterator[str]:
        if self.total_bytes > caps.total_bytes:
            have, most = _megabytes(self.total_bytes), _megabytes(caps.total_bytes)
            yield f"the project is {have}; at most {most} can be sent"
        if len(self.members) > caps.members:
            have, most = f"{len(self.members):,}", f"{caps.members:,}"
            yield f"the project has {have} members; at most {most} can be sent"
        count = sum(m.size_bytes > caps.file_bytes for m in self.members)
        if count:
            files = "file is" if count == 1 else "files are"
            yield f"{count} {files} larger than {_megabytes(caps.file_bytes)}"


def survey(project: Path) -> Survey:
    """Walk the project folder by its ignore rules."""
    rules = rules_of(project)
    walk = _Walk([], [], rules.problems)
    walk.folder(project, "", rules, ignored=False, depth=0)
    return Survey(
        project,
        rules.files[0].label if rules.files else "",
        tuple(walk.members),
        tuple(walk.left_out),
        tuple(walk.problems),
    )


class _Walk(Struct, frozen=True):
    """A walk through a folder tree, which fills these lists."""

    members: list[Member]
    left_out: list[LeftOut]
    problems: list[Problem]

    def folder(
        self, path: Path, name: str, rules: Rules, *, ignored: bool, depth: int
    ) -> None:
        """Add a folder's entries, sorted by name."""
        if depth > DEEPEST:
            self.problems.append(Problem(f"{name!r} is nested too deeply"))
            return
        if not ignored and name:
            rules = rules.within(path, name)
        try:
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self.problems.append(cannot_read(f"{name}/", error))
            return
        prefix = f"{name}/" if name else ""
        for entry in entries:
            try:
                self._entry(entry, prefix + entry.name, rules, depth)
            except OSError as error:
                self.problems.append(cannot_read(prefix + entry.name, error))

    def _entry(
        self, entry: os.DirEntry[str], name: str, rules: Rules, depth: int
    ) -> None:
        if entry.name in VERSION_CONTROL:
            slash = "/" if entry.is_dir(follow_symlinks=False) else ""
            self.left_out.append(LeftOut(name + slash, "version control stays here"))
        elif entry.is_dir(follow_symlinks=False):
            self._subfolder(Path(entry.path), name, rules, depth)
        elif (match := rules.match(name)) and match.ignored:
            self.left_out.append(LeftOut(name, match.why))
        elif entry.is_symlink():
            target = os.readlink(entry.path)  # noqa: PTH115 - Path would tidy it
            self.members.append(Member(name, MemberKind.LINK, target=target))
        else:
            self._file(entry.stat(follow_symlinks=False), name)

    def _file(self, status: os.stat_result, name: str) -> None:
        if not stat.S_ISREG(status.st_mode):
            kind = _SPECIAL.get(stat.S_IFMT(status.st_mode), "a special file")
            self.left_out.append(LeftOut(name, f"{kind} cannot be sent"))
            return
        executable = bool(status.st_mode & stat.S_IXUSR)
        self.members.append(Member(name, MemberKind.FILE, status.st_size, executable))

    def _subfolder(self, path: Path, name: str, rules: Rules, depth: int) -> None:
        if (path / "pyvenv.cfg").is_file():
            why = "a virtual environment stays here"
            self.left_out.append(LeftOut(f"{name}/", why))
            return
        match = rules.match(f"{name}/")
        ignored = match is not None and match.ignored
        if match and ignored and match.final:
            self.left_out.append(LeftOut(f"{name}/", match.why))
            return
        at, left = len(self.members), len(self.left_out)
        self.members.append(Member(name, MemberKind.FOLDER))
        self.folder(path, name, rules, ignored=ignored, depth=depth + 1)
        if match and ignored and len(self.members) == at + 1:
            # No exception brought anything back: report the folder alone.
            del self.members[at:], self.left_out[left:]
            self.left_out.append(LeftOut(f"{name}/", match.why))


_SPECIAL = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def cannot_read(name: str, error: OSError) -> Problem:
    """Return the problem that an entry of the project cannot be read."""
    return Problem(f"{name!r} cannot be read: {error.strerror or error}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
