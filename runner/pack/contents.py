"""What of a project folder is sent, and what is left out and why."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from runner.core import Problem, Severity, quantities
from runner.core.quantities import size
from runner.core.work import UPLOAD, Caps
from runner.pack.ignore import IgnoreRules, LeftBy, Match, rules_of

DEEPEST = 200
"""The most folders within folders; more is a loop or a mistake."""

WALKED = 5
"""How many times the ceiling of members are looked at, to name the largest entries."""

LEFT_OUT_KEPT = 10_000
"""The most names of entries that are left out; more are only counted."""

NAMED = 5
"""How many entries a message names."""

LINK_STEPS = 256
"""The most components of a link's path that are followed."""

RUN_FILE = ".rai-run"
"""The file of a folder that a build folder was unpacked to, which lists the rest."""

VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})

MOSTLY = 0.8
"""A folder with so much of its weight in one entry is named by that entry."""


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
    by: LeftBy = LeftBy.BUILT_IN


class Survey(Struct, frozen=True):
    """What `rai run --dry-run` shows and ``pack`` sends.

    ``rules`` names the files of rules that were read. ``problems`` are warnings about
    rules, and errors for what cannot be read: with an error ``pack`` refuses.
    ``left_out_count`` counts what ``left_out`` is too short for, too; ``cut`` if the
    folder holds more than was looked at.
    """

    project: Path
    rules: tuple[str, ...]
    members: tuple[Member, ...]
    left_out: tuple[LeftOut, ...]
    left_out_count: int
    problems: tuple[Problem, ...] = ()
    cut: bool = False

    @property
    def total_bytes(self) -> int:
        """The size of all files together."""
        return sum(m.size_bytes for m in self.members)

    @property
    def warnings(self) -> list[Problem]:
        """The warnings: of rules, of secrets left out, and of links that lead out."""
        found = [p for p in self.problems if p.severity is Severity.WARNING]
        if names := [item.name for item in self.left_out if item.by is LeftBy.SECRET]:
            hint = f"to send one, write `!{names[0].rstrip('/')}` in .raiignore"
            text = f"left out because they look like secrets: {_first(names)}"
            found.append(Problem(text, hint=hint, severity=Severity.WARNING))
        links = {m.name: m.target for m in self.members if m.kind is MemberKind.LINK}
        if out := [name for name in links if leaves(name, links)]:
            hint = "copy the files that the run needs into the project"
            text = f"these links lead out of the project: {_first(out)}"
            found.append(Problem(text, hint=hint, severity=Severity.WARNING))
        return found


def survey(project: Path, home: str = "", caps: Caps = UPLOAD) -> Survey:
    """Walk the project folder by its ignore rules.

    ``home`` is the name of rai's own home folder, if it is there. The walk ends far
    above the ceiling of members.
    """
    rules = rules_of(project)
    walk = _Walk(home, caps.members * WALKED)
    cut = False
    try:
        walk.folder(project, "", rules, above=None, depth=0)
    except _TooManyError:
        cut = True
    problems = (*rules.problems, *walk.problems)
    labels = [file.label for file in (rules.own, *rules.git) if file]
    return Survey(
        project,
        (*labels, *walk.labels),
        tuple(walk.members),
        tuple(walk.left_out),
        walk.dropped + len(walk.left_out),
        problems,
        cut,
    )


class _TooManyError(Exception):
    """The folder has so many members that looking at more is of no use."""


class _Walk:
    """A walk through a folder tree, which fills these lists."""

    def __init__(self, home: str, most: int) -> None:
        self.members: list[Member] = []
        self.left_out: list[LeftOut] = []
        self.problems: list[Problem] = []
        self.labels: list[str] = []
        self.dropped = 0
        self._home = home
        self._most = most

    def folder(
        self,
        path: Path,
        name: str,
        rules: IgnoreRules,
        *,
        above: Match | None,
        depth: int,
    ) -> None:
        """Add a folder's entries, sorted by name; ``above`` leaves it out."""
        if depth > DEEPEST:
            self.problems.append(Problem(f"{name!r} is nested too deeply"))
            return
        if above is None and name and (inner := rules.within(path, name)) is not rules:
            rules = inner
            self.labels.append(inner.git[0].label)
        try:
            with os.scandir(path) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            self.problems.append(cannot_read(f"{name}/", error))
            return
        prefix = f"{name}/" if name else ""
        for entry in entries:
            try:
                self._entry(entry, prefix + entry.name, rules, above, depth)
            except OSError as error:
                self.problems.append(cannot_read(prefix + entry.name, error))

    def _entry(
        self,
        entry: os.DirEntry[str],
        name: str,
        rules: IgnoreRules,
        above: Match | None,
        depth: int,
    ) -> None:
        if len(self.members) > self._most:
            raise _TooManyError
        if entry.name in VERSION_CONTROL:
            slash = "/" if entry.is_dir(follow_symlinks=False) else ""
            self._leave(name + slash, "built in: version control")
        elif entry.is_dir(follow_symlinks=False):
            self._subfolder(Path(entry.path), name, rules, above, depth)
        elif match := rules.left_out(name, above):
            self._leave(name, match.why, match.by)
        elif entry.is_symlink():
            target = os.readlink(entry.path)  # noqa: PTH115 - Path would tidy it
            self.members.append(Member(name, MemberKind.LINK, target=target))
        else:
            status = entry.stat(follow_symlinks=False)
            mode, kind = status.st_mode, MemberKind.FILE
            if stat.S_ISREG(mode):
                executable = bool(mode & stat.S_IXUSR)
                self.members.append(Member(name, kind, status.st_size, executable))
            elif stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                what = "a socket" if stat.S_ISSOCK(mode) else "a named pipe"
                self._leave(name, f"built in: {what}")
            else:
                self._leave(name, "built in: a device")

    def _leave(self, name: str, why: str, by: LeftBy = LeftBy.BUILT_IN) -> None:
        # Secrets are reported by name, so they come before what only has a rule.
        most = LEFT_OUT_KEPT * (2 if by is LeftBy.SECRET else 1)
        if len(self.left_out) < most:
            self.left_out.append(LeftOut(name, why, by))
        else:
            self.dropped += 1

    def _subfolder(
        self, path: Path, name: str, rules: IgnoreRules, above: Match | None, depth: int
    ) -> None:
        if (path / "pyvenv.cfg").is_file():
            self._leave(f"{name}/", "built in: a virtual environment")
            return
        why = ""
        if name == self._home:
            why = "built in: rai's own home folder"
        elif (path / RUN_FILE).is_file():
            why = f"built in: a build folder, unpacked by rai ({RUN_FILE})"
        if why:
            above = Match(True, why, rules.closed(name), LeftBy.OUTPUT)
        match = rules.left_out(f"{name}/", above)
        if match and match.final:
            self._leave(f"{name}/", match.why, match.by)
            return
        at, left, dropped = len(self.members), len(self.left_out), self.dropped
        self.members.append(Member(name, MemberKind.FOLDER))
        self.folder(path, name, rules, above=match, depth=depth + 1)
        if match and len(self.members) == at + 1:
            # Nothing was brought back: report the folder alone.
            del self.members[at:], self.left_out[left:]
            self.dropped = dropped
            self._leave(f"{name}/", match.why, match.by)


def cannot_read(name: str, error: OSError) -> Problem:
    """Return the problem that an entry of the project cannot be read."""
    why = str(error.strerror or error)
    denied = isinstance(error, PermissionError)
    hint = "chmod it, or add it to .raiignore" if denied else ""
    return Problem(f"cannot read {name}: {why[:1].lower()}{why[1:]}", hint=hint)


def _first(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def leaves(link: str, links: Mapping[str, str]) -> bool:
    """Whether a link leads out of the root, through other links too."""
    here = link.split("/")[:-1]
    ahead = [*reversed(links[link].split("/"))]
    if links[link].startswith("/"):
        return True
    for _ in range(LINK_STEPS):
        if not ahead:
            return False
        part = ahead.pop()
        if part == "..":
            if not here:
                return True
            here.pop()
        elif part not in ("", "."):
            here.append(part)
            target = links.get("/".join(here))
            if target is not None:
                if target.startswith("/"):
                    return True
                here.pop()
                ahead.extend(reversed(target.split("/")))
    return True


def exceeded(survey: Survey, caps: Caps) -> list[Problem]:
    """Return which ceilings of a project a survey exceeds, with the largest entries."""
    members, problems = survey.members, []
    if survey.total_bytes > caps.total_bytes:
        have, most = size(survey.total_bytes), size(caps.total_bytes)
        text = f"the project is {have}; at most {most} can be sent"
        twice = quantities.size_text(_doubled(survey.total_bytes))
        found = _heaviest(members, lambda member: member.size_bytes)
        problems.append(_problem(text, found, size, f"RAI_PROJECT_SIZE={twice}"))
    if len(members) > caps.members:
        have = f"{'more than ' if survey.cut else ''}{len(members):,}"
        text = f"the project has {have} files and folders; at most {caps.members:,}"
        found = _heaviest(members, lambda member: 1)
        problems.append(_problem(f"{text} can be sent", found, "{:,}".format))
    large = [m for m in members if m.size_bytes > caps.file_bytes]
    if large:
        files = "1 file is" if len(large) == 1 else f"{len(large):,} files are"
        text = f"{files} larger than {size(caps.file_bytes)}"
        found = sorted(((m.name, m.size_bytes) for m in large), key=lambda e: -e[1])
        twice = quantities.size_text(_doubled(found[0][1]))
        setting = f"RAI_PROJECT_FILE_SIZE={twice}"
        problems.append(_problem(text, found[:NAMED], size, setting))
    return problems


def _problem(
    text: str,
    found: list[tuple[str, int]],
    written: Callable[[int], str],
    setting: str = "",
) -> Problem:
    rows = ", ".join(f"{name!r} {written(weight)}" for name, weight in found)
    # The line that leaves out just this entry.
    rule = "".join(f"\\{c}" if c in "*?[\\" else c for c in found[0][0])
    hint = f"a line `/{rule}` in .raiignore leaves the first out"
    hint += f"; or set {setting}" if setting else ""
    return Problem(f"{text}: {rows}", hint=hint)


def _heaviest(
    members: Iterable[Member], weight: Callable[[Member], int]
) -> list[tuple[str, int]]:
    """Return the heaviest entries, files or folders, heaviest first.

    Of a folder that is mostly one entry, that one stands in its place.
    """
    total: dict[str, int] = defaultdict(int)
    inner: dict[str, list[str]] = defaultdict(list)
    for member in members:
        name = f"{member.name}/" if member.kind is MemberKind.FOLDER else member.name
        above = _above(name)
        inner[above].append(name)
        total[name] += weight(member)
        while above:
            total[above] += weight(member)
            above = _above(above)
    found = sorted(inner[""], key=lambda name: -total[name])[:NAMED]
    narrowed = (_narrowed(name, total, inner) for name in found if total[name])
    return [(name, total[name]) for name in narrowed]


def _narrowed(name: str, total: dict[str, int], inner: dict[str, list[str]]) -> str:
    while inner.get(name):
        largest = max(inner[name], key=lambda entry: total[entry])
        if total[largest] < MOSTLY * total[name]:
            break
        name = largest
    return name


def _above(name: str) -> str:
    """Return the name of the folder that an entry is in, "" for the project."""
    head, slash, _ = name.rstrip("/").rpartition("/")
    return head + slash


def _doubled(value: int) -> int:
    """Return a round value, a power of two, that is above this one."""
    return 1 << value.bit_length()
