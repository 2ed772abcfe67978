"""Read server.yml, the settings of a server. What of it is wrong stops the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from runner import files
from runner.core import Problem
from runner.core.errors import ConfigError
from runner.core.quantities import COUNT, SIZE, TIME, Kind
from runner.milestones.runs import WORD
from runner.scheduling.queue import STAFF, STUDENT, Role, ServerRules
from runner.store import config_file, policy
from runner.wire.addresses import slurm_target
from runner.yamlfile import Fields, Mapping, Problems, compose, decode

TEMPLATE = Path(__file__).with_name("server.yml")
"""A new server's file, which says what holds without it."""

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
        raw = files.read(file, config_file.MOST_BYTES)
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
    named = node.get("roles") if isinstance(node, Mapping) else None
    roles = list(named) if isinstance(named, Mapping) else []
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
