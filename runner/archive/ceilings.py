"""Which ceilings a project exceeds, by what, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from runner.archive.contents import Member, MemberKind, Survey
from runner.core import Problem, quantities
from runner.core.caps import Caps
from runner.report import size

NAMED = 5
"""How many of the largest entries a message names."""

MOSTLY = 0.8
"""A folder with so much of its weight in one entry is named by that entry."""

Weight = Callable[[Member], int]


def exceeded(survey: Survey, caps: Caps) -> list[Problem]:
    """Return which ceilings of a project a survey exceeds, with the largest entries."""
    return list(_exceeded(survey, caps))


def _exceeded(survey: Survey, caps: Caps) -> Iterator[Problem]:
    members = survey.members
    if survey.total_bytes > caps.total_bytes:
        have, most = size(survey.total_bytes), size(caps.total_bytes)
        text = f"the project is {have}; at most {most} can be sent"
        twice = quantities.size_text(_doubled(survey.total_bytes))
        found = heaviest(members, lambda member: member.size_bytes)
        yield _problem(text, found, size, f"RAI_PROJECT_SIZE={twice}")
    if len(members) > caps.members:
        have = f"{'more than ' if survey.cut else ''}{len(members):,}"
        text = f"the project has {have} files and folders; at most {caps.members:,}"
        found = heaviest(members, lambda member: 1)
        yield _problem(f"{text} can be sent", found, lambda count: f"{count:,}")
    large = [m for m in members if m.size_bytes > caps.file_bytes]
    if large:
        files = "1 file is" if len(large) == 1 else f"{len(large):,} files are"
        text = f"{files} larger than {size(caps.file_bytes)}"
        found = sorted(((m.name, m.size_bytes) for m in large), key=lambda e: -e[1])
        twice = quantities.size_text(_doubled(found[0][1]))
        yield _problem(text, found[:NAMED], size, f"RAI_PROJECT_FILE_SIZE={twice}")


def _problem(
    text: str,
    found: list[tuple[str, int]],
    written: Callable[[int], str],
    setting: str = "",
) -> Problem:
    rows = ", ".join(f"{name!r} {written(weight)}" for name, weight in found)
    rule = pattern(found[0][0])
    hint = f"a line `{rule}` in .raiignore leaves the first out"
    hint += f"; or set {setting}" if setting else ""
    return Problem(f"{text}: {rows}", hint=hint)


def heaviest(members: Iterable[Member], weight: Weight) -> list[tuple[str, int]]:
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


def pattern(name: str) -> str:
    """Return the line of .raiignore that leaves out just this entry."""
    return "/" + "".join(f"\\{c}" if c in "*?[\\" else c for c in name)


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
