"""Read server.yml and teams.csv, as people write them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from runner.core import Place, Problem
from runner.core.addresses import slurm_target
from runner.core.errors import ConfigError
from runner.core.quantities import COUNT, SIZE, TIME, Kind
from runner.server.database.accounts import Invitation
from runner.server.scheduling import STAFF, STUDENT, Role, ServerRules
from runner.spec.fields import Fields
from runner.spec.milestones.folder import WORD
from runner.spec.yamlfile import MappingNode, Problems, compose, decode
from runner.store import policy
from runner.system import files

TEMPLATE = Path(__file__).with_name("server.yml")
"""A new server's file, which says what holds without it."""

COLUMNS = ("team", "person", "role")
MOST_BYTES = 4 << 20
MOST_ROWS = 20_000
MOST_PROBLEMS = 50
_PERSON_NAME = re.compile(r"\w[\w .,@+'-]{0,63}")
_HINT = "1 to 64 letters, digits, blanks and . , @ + ' - _, a letter or digit first"

_TOP = ("slots", "slurm", "low_disk", "term", "code_valid", "login_valid", "roles")
_SLURM = ("place", "gpu_jobs", "cpu_jobs")
_ROLE = (
    *("priority", "at_once", "waiting", "a_day", "gpu_a_day", "images", "upload"),
    *("disk", "keep", "account", "qos", "partition", "limits"),
)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PLACE = Kind(
    "slurm or slurm:PARTITION",
    lambda text: str(slurm_target(text) or "") or None,
)
_NAMED = re.compile(r"\w[\w.@+-]{0,99}", re.ASCII)
"""What Slurm calls accounts, QOS and partitions: each becomes an option of sbatch."""

_IN_SLURM = Kind(
    "a name of letters, digits and `_.@+-`",
    lambda text: text if _NAMED.fullmatch(text) else None,
)
_WORDS_OF_NONE = ("none", "off", "unlimited")
_NONE = object()

T = TypeVar("T")


def read(file: Path) -> ServerRules:
    """Return the rules of a server; without a file the default ones.

    Raises:
        ConfigError: the file is wrong or cannot be read; carries every problem found.
    """
    try:
        raw = files.read(file, policy.MOST_BYTES)
    except FileNotFoundError:
        return ServerRules()
    except OSError as error:
        text = f"the server's rules {file} cannot be read: {error.strerror}"
        raise ConfigError(Problem(text)) from error
    return parse(raw, str(file))


def parse(raw: bytes, file: str) -> ServerRules:
    """Return the rules that a file's bytes say; raise ConfigError as ``read`` does."""
    problems = Problems()
    text = decode(raw, file, problems)
    node = compose(text, file, problems) if text is not None else None
    named = node.get("roles") if isinstance(node, MappingNode) else None
    roles = list(named) if isinstance(named, MappingNode) else []
    grammar = {"": _TOP, "slurm": _SLURM, "roles": tuple(roles)}
    for name in filter(_NAME.fullmatch, roles):
        grammar[f"roles.{name}"] = _ROLE
        grammar[f"roles.{name}.limits"] = policy.LIMIT_KEYS
    fields = Fields.of(node, grammar, problems)
    rules = _rules(fields) if fields else ServerRules()
    if problems.found:
        # An unknown key too: a bound that is misspelt would be none.
        found = problems.in_file_order()
        raise ConfigError(*(Problem(p.message, p.place, p.hint) for p in found))
    return rules


def _rules(fields: Fields) -> ServerRules:
    usual = ServerRules()
    valid_s = usual.token_valid_s
    slurm = fields.section("slurm")
    return ServerRules(
        roles={**usual.roles, **{role.name: role for role in _roles(fields)}},
        slots=fields.whole("slots", usual.slots),
        place=slurm.read("place", usual.place, _PLACE, "slurm:gpu"),
        gpu_jobs=slurm.whole("gpu_jobs", usual.gpu_jobs),
        cpu_jobs=slurm.whole("cpu_jobs", usual.cpu_jobs),
        low_disk_bytes=fields.read("low_disk", usual.low_disk_bytes, SIZE, "5GiB"),
        term=fields.read("term", usual.term, WORD, "2026fa"),
        code_valid_s=fields.duration_s("code_valid", usual.code_valid_s, "14d"),
        token_valid_s=_most(fields, "login_valid", valid_s, TIME, "200d"),
    )


def _roles(fields: Fields) -> Iterator[Role]:
    roles = fields.child("roles")
    if roles is None:
        return
    student = STUDENT
    # The student's first: what another role does not say is as there.
    for key, _ in sorted(roles.node.entries, key=lambda e: e[0].text != STUDENT.name):
        if not _NAME.fullmatch(key.text):
            hint = "expected small letters, digits, `-` and `_`, a letter first"
            roles.problems.error(f'no role is called "{key.text}"', key.place, hint)
        elif role := roles.child(key.text):
            usual = STAFF if key.text == STAFF.name else student
            found = _role(key.text, role, usual)
            student = found if key.text == STUDENT.name else student
            yield found


def _role(name: str, fields: Fields, usual: Role) -> Role:
    read = {name: float(each.most) for name, each in policy.ceilings(fields).items()}
    images = policy.images(fields)
    count = COUNT.at_least(1)
    return Role(
        name,
        priority=fields.read("priority", usual.priority, COUNT, "10"),
        ceilings={**usual.ceilings, **read},
        images=images.patterns if images else usual.images,
        at_once=_most(fields, "at_once", usual.at_once, count, "2"),
        waiting=fields.whole("waiting", usual.waiting, "100"),
        a_day=_most(fields, "a_day", usual.a_day, count, "200"),
        gpu_a_day_s=_most(fields, "gpu_a_day", usual.gpu_a_day_s, TIME, "120m"),
        upload_bytes=fields.read("upload", usual.upload_bytes, SIZE, "1GiB"),
        disk_bytes=fields.read("disk", usual.disk_bytes, SIZE, "20GiB"),
        keep_s=fields.duration_s("keep", usual.keep_s, "30d"),
        account=fields.read("account", usual.account, _IN_SLURM, "course"),
        qos=fields.read("qos", usual.qos, _IN_SLURM, "short"),
        partition=fields.read("partition", usual.partition, _IN_SLURM, "gpu"),
    )


def _most(
    fields: Fields, key: str, usual: T | None, wanted: Kind[T], example: str
) -> T | None:
    """Read a bound, which may be `none`."""

    def parse(text: str) -> Any:  # noqa: ANN401 - a T, or _NONE
        return _NONE if text.lower() in _WORDS_OF_NONE else wanted.parse(text)

    kind = Kind(f"{wanted.words}, or none", parse, wanted.write)
    found = fields.read(key, usual, kind, example)
    return None if found is _NONE else found


def parse_teams(data: bytes, file: str, roles: Collection[str]) -> list[Invitation]:
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
            if not _PERSON_NAME.fullmatch(name):
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
