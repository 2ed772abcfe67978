"""Read server.yml, the settings of a server. What of it is wrong stops the server."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

from runner import files
from runner.core import Problem
from runner.core.errors import ConfigError
from runner.core.quantities import COUNT, SIZE, TIME, Kind, duration_text, size_text
from runner.core.units import DAY_S
from runner.scheduling.queue import STAFF, STUDENT, Role, ServerRules
from runner.slurm import target
from runner.store import config_file, policy
from runner.yamlfile import Fields, Mapping, Problems, compose, decode

_TOP = ("slots", "slurm", "low_disk", "code_valid", "login_valid", "roles")
_SLURM = ("place", "gpu_jobs", "cpu_jobs")
_ROLE = (
    *("priority", "at_once", "waiting", "a_day", "gpu_a_day", "images", "upload"),
    *("disk", "keep", "account", "qos", "partition", "limits"),
)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PLACE = Kind(
    "slurm or slurm:PARTITION", lambda text: str(target.parse(text) or "") or None
)
_NAMED = re.compile(r"\w[\w.@+-]{0,99}", re.ASCII)
"""What Slurm calls accounts, QOS and partitions: each becomes an option of sbatch."""

_IN_SLURM = Kind(
    "a name of letters, digits and `_.@+-`",
    lambda text: text if _NAMED.fullmatch(text) else None,
)
_WORDS_OF_NONE = ("none", "off", "unlimited")


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
    login = fields.read("login_valid", usual.token_valid_s, _or_none(TIME), "200d")
    slurm = fields.section("slurm")
    return ServerRules(
        roles={**usual.roles, **{role.name: role for role in _roles(fields)}},
        slots=fields.whole("slots", usual.slots),
        place=slurm.read("place", usual.place, _PLACE, "slurm:gpu"),
        gpu_jobs=slurm.whole("gpu_jobs", usual.gpu_jobs),
        cpu_jobs=slurm.whole("cpu_jobs", usual.cpu_jobs),
        low_disk_bytes=fields.read("low_disk", usual.low_disk_bytes, SIZE, "5GiB"),
        code_valid_s=fields.duration_s("code_valid", usual.code_valid_s, "14d"),
        token_valid_s=_bound(login),
    )


def _roles(fields: Fields) -> Iterator[Role]:
    roles = fields.child("roles")
    for key, _ in roles.node.entries if roles else ():
        assert roles is not None
        if not _NAME.fullmatch(key.text):
            hint = "expected small letters, digits, `-` and `_`, a letter first"
            roles.problems.error(f'no role is called "{key.text}"', key.place, hint)
        elif role := roles.child(key.text):
            yield _role(key.text, role)


def _role(name: str, fields: Fields) -> Role:
    usual = STAFF if name == STAFF.name else STUDENT
    read = {name: float(each.most) for name, each in policy.ceilings(fields).items()}
    images = policy.images(fields)
    count = _or_none(COUNT.at_least(1))
    gpu_a_day = fields.read("gpu_a_day", usual.gpu_a_day_s, _or_none(TIME), "120m")
    return Role(
        name,
        priority=fields.read("priority", usual.priority, COUNT, "10"),
        ceilings={**usual.ceilings, **read},
        images=images.patterns if images else None,
        at_once=_whole(fields.read("at_once", usual.at_once, count, "2")),
        waiting=fields.whole("waiting", usual.waiting, "100"),
        a_day=_whole(fields.read("a_day", usual.a_day, count, "200")),
        gpu_a_day_s=_bound(gpu_a_day),
        upload_bytes=fields.read("upload", usual.upload_bytes, SIZE, "1GiB"),
        disk_bytes=fields.read("disk", usual.disk_bytes, SIZE, "20GiB"),
        keep_s=fields.duration_s("keep", usual.keep_s, "30d"),
        account=fields.read("account", "", _IN_SLURM, "course"),
        qos=fields.read("qos", "", _IN_SLURM, "short"),
        partition=fields.read("partition", "", _IN_SLURM, "gpu"),
    )


def _or_none(wanted: Kind[float] | Kind[int]) -> Kind[float]:
    """Return the kind of a bound that may be absent, which is read as infinite."""

    def parse(text: str) -> float | None:
        return math.inf if text.lower() in _WORDS_OF_NONE else wanted.parse(text)

    return Kind(f"{wanted.words}, or none", parse, wanted.write)


def _bound(value: float | None) -> float | None:
    return None if value == math.inf else value


def _whole(value: float | None) -> int | None:
    return None if value is None or value == math.inf else int(value)


def template() -> str:
    """Return the text of a new server's file, which says what holds without it."""
    usual = ServerRules()
    return f"""\
# The settings of this rai server, read when it starts. Sizes are such as 20GiB, times
# such as 10m, 12h or 30d.

# How many runs without a GPU run at a time; if it is not said, half of the machine's
# cores. Of those with GPUs as many run as there are GPUs.
#slots: 4

# Where Slurm carries the runs out, in its default partition or in another, as by
# `slurm:gpu`: the server's folder has to be on the file system that the nodes share.
# At most so many runs with a GPU, and so many without, are in Slurm's queue at a time.
#slurm:
#  place: slurm
#  gpu_jobs: {usual.gpu_jobs}
#  cpu_jobs: {usual.cpu_jobs}

# While less than this is free on the disk, nothing starts and nothing is taken.
low_disk: {size_text(usual.low_disk_bytes)}

# For how long a code of `rai server invite` can be used, and a login lasts (or `none`).
code_valid: {_days(usual.code_valid_s)}
login_valid: {_days(usual.token_valid_s)}

# What the teams of each role may do. What another role does not say is as a student's.
#   priority   runs of a higher one start first
#   at_once    so many runs of a team go at a time (or `none`)
#   waiting    so many more may wait
#   a_day      so many may be queued in any 24 hours (or `none`)
#   gpu_a_day  so many minutes of GPUs a team may have in any 24 hours (or `none`); then
#              its runs with a GPU wait
#   images     the only images, such as {policy.IMAGES};
#              none is built, unless `build` is among them
#   upload     how much a packed project may have
#   disk       how much a team's uploads and runs may take; then its oldest runs go
#   keep       how long a run is kept after its end
#   account, qos, partition    what Slurm is asked for
#   limits     the most that a build file may ask for: {_limit_keys()}
roles:
{_written(STUDENT)}
    limits:
      time: 10m
      pids: 4096
      network: false
      #memory: 8GiB
{_written(STAFF)}
"""


def _limit_keys() -> str:
    first, last = policy.LIMIT_KEYS[:6], policy.LIMIT_KEYS[6:]
    return ",\n#              ".join(map(", ".join, (first, last)))


def _written(role: Role) -> str:
    at_once, a_day = (
        "none" if most is None else str(most) for most in (role.at_once, role.a_day)
    )
    gpu_a_day = "none" if role.gpu_a_day_s is None else f"{role.gpu_a_day_s / 60:g}m"
    return f"""\
  {role.name}:
    priority: {role.priority}
    at_once: {at_once}
    waiting: {role.waiting}
    a_day: {a_day}
    gpu_a_day: {gpu_a_day}
    upload: {size_text(role.upload_bytes)}
    disk: {size_text(role.disk_bytes)}
    keep: {_days(role.keep_s)}"""


def _days(value_s: float | None) -> str:
    if value_s is None:
        return "none"
    return duration_text(value_s) if value_s % DAY_S else f"{value_s / DAY_S:.0f}d"
