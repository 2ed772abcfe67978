"""Who is invited: teams.csv, as people and spreadsheets write it. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence

from runner.core import Place, Problem
from runner.core.errors import ConfigError
from runner.database.accounts import Invitation

COLUMNS = ("team", "person", "role")
MOST_BYTES = 4 << 20
MOST_ROWS = 20_000
MOST_PROBLEMS = 50
_NAME = re.compile(r"\w[\w .,@+'-]{0,63}")
_HINT = "1 to 64 letters, digits, blanks and . , @ + ' - _, a letter or digit first"


def parse(data: bytes, file: str, roles: Collection[str]) -> list[Invitation]:
    """Return the lines of a table `team,person[,role]`; a heading is optional.

    The columns are divided by commas, semicolons or tabs, as the first line has them.

    Raises:
        ConfigError: carries every problem, with its line, up to MOST_PROBLEMS.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = f"{file}:{line}: it is not UTF-8"
        raise ConfigError(Problem(text, hint="save it as CSV, UTF-8")) from error
    if len(data) > MOST_BYTES or data.count(b"\n") > MOST_ROWS:
        bounds = f"{MOST_BYTES >> 20} MiB or {MOST_ROWS:,} lines"
        raise ConfigError(f"{file}: it is over {bounds}")
    found, problems = _rows(text, file)
    problems += _wrong(found, file, roles)
    if problems:
        problems.sort(key=lambda one: one.place.line if one.place else 0)
        raise ConfigError(*problems[:MOST_PROBLEMS])
    if not found:
        hint = "write a line `team,person` for each"
        raise ConfigError(Problem(f"{file}: it names nobody", hint=hint))
    return [one for _, one in found]


def check(
    invitations: Sequence[Invitation], roles: Collection[str], source: str
) -> None:
    """Refuse names and roles that cannot be; raise ConfigError with all problems."""
    numbered = list(enumerate(invitations, start=1))
    if problems := list(_wrong(numbered, source, roles)):
        raise ConfigError(*(Problem(one.message, hint=one.hint) for one in problems))


def _rows(text: str, file: str) -> tuple[list[tuple[int, Invitation]], list[Problem]]:
    lines = (line for line in text.splitlines() if line.strip() and line[0] != "#")
    divider = max(",;\t", key=next(lines, "").count)
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=divider,
        skipinitialspace=True,
        strict=True,
    )
    columns: list[str] = []
    found: list[tuple[int, Invitation]] = []
    problems: list[Problem] = []
    try:
        for cells in reader:
            words = [" ".join(cell.split()) for cell in cells]
            if not any(words) or words[0].startswith("#"):
                continue
            if not columns:
                columns = [word.lower() for word in words]
                if {"team", "person"} <= set(columns):
                    continue
                columns = list(COLUMNS)
            values = dict(zip(columns, words, strict=False))
            if len(words) > len(columns) or not values.get("person"):
                text = f"expected {divider.join(COLUMNS[:2])}, and a role at most"
                problems.append(Problem(text, Place(file, reader.line_num, 1)))
                continue
            named = {name: values.get(name, "") for name in COLUMNS}
            found.append((reader.line_num, Invitation(**named)))
    except csv.Error as error:
        problems.append(Problem(str(error), Place(file, reader.line_num, 1)))
    return found, problems


def _wrong(
    found: Sequence[tuple[int, Invitation]], file: str, roles: Collection[str]
) -> Iterator[Problem]:
    people: set[tuple[str, str]] = set()
    teams: dict[str, tuple[str, int]] = {}
    for line, one in found:
        place = Place(file, line, 1)
        for what, name in (("team", one.team), ("person", one.person)):
            if not _NAME.fullmatch(name):
                yield Problem(f"{name!r} is no name of a {what}", place, _HINT)
        if (one.team, one.person) in people:
            yield Problem(f"{one.person} of {one.team} is named twice", place)
        people.add((one.team, one.person))
        if not one.role:
            continue
        if one.role not in roles:
            hint = f"server.yml has {', '.join(roles)}"
            yield Problem(f"there is no role {one.role!r}", place, hint)
        role, before = teams.setdefault(one.team, (one.role, line))
        if role != one.role:
            text = f"the team {one.team} has the role {role} on line {before}"
            yield Problem(text, place, "all runs of a team have one role")
