"""Read a site's policy, whose ceilings and images a server's roles have too."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core import LIMITS, Place, Problem, Profile, policy
from runner.core.errors import ConfigError
from runner.core.policy import (
    NO_POLICY,
    AllowList,
    Ceiling,
    Network,
    Policy,
    PrivateTarget,
)
from runner.core.quantities import SWITCH, one_of
from runner.system import files

if TYPE_CHECKING:
    from runner.spec.fields import Fields, Grammar


MOST_BYTES = 1 << 20
"""A larger file is refused."""


def origin(place: Place | str) -> str:
    """Return what says a value, by its place, or in words of its own."""
    return place if isinstance(place, str) else f"file:{place.file}:{place.line}"


def config_fields(
    raw: bytes, file: str, grammar: Grammar, problems: list[Problem]
) -> Fields | None:
    """Read a file's bytes as a mapping; None where it is empty or no mapping."""
    # The YAML parser takes longer to import than most commands take to run.
    from runner.spec.fields import Fields

    read, found = Fields.parse(raw, file, grammar)
    if read is None:
        problems += found.in_file_order()
    return read


FILE = Path(policy.FILE)

ROOT = 0

LIMIT_KEYS = tuple(limit.key for limit in LIMITS)

_KEYS = {
    "": ("profile", "limits", "strict_limits", "images", "data", "private"),
    "limits": LIMIT_KEYS,
}
IMAGES = '["debian:*", "registry.example.org/course/*"]'
HOSTS = '["*.example.org", "files.lab"]'
PRIVATE = '["10.1.0.0/16", "files.lab"]'

_IMAGE = re.compile(r"[\w.:/@*?\[\]!-]+", re.ASCII)
_HOST = re.compile(r"[\w.*?-]+", re.ASCII)
_NAME = re.compile(r"[\w.-]*[A-Za-z_][\w.-]*", re.ASCII)
_PROFILE = one_of(tuple(Profile))


def read(file: Path = FILE, owner: int = ROOT) -> Policy:
    """Return the policy of this machine; one without a file allows everything.

    ``owner`` is the only user who may write the file and its folder.

    Raises:
        ConfigError: the file is wrong, cannot be read, or others may write it; carries
            every problem found.
    """
    try:
        raw = _trusted(file, owner)
    except FileNotFoundError:
        return NO_POLICY
    except OSError as error:
        text = f"the site's policy {file} cannot be read: {error.strerror}"
        hint = "nothing runs without it: have it repaired by who keeps this machine"
        raise ConfigError(Problem(text, hint=hint)) from error
    problems: list[Problem] = []
    fields = config_fields(raw, str(file), _KEYS, problems)
    found = Policy(file=str(file))
    if fields:
        found = _policy(fields, str(file))
        problems += fields.problems.in_file_order()
    if problems:
        # An unknown key too: a ceiling that is misspelt would be none.
        raise ConfigError(*(Problem(p.message, p.place, p.hint) for p in problems))
    return found


def _trusted(file: Path, owner: int) -> bytes:
    """Return the file's bytes; raise OSError if others may change what it says."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    folder = _opened(file.parent, flags | os.O_DIRECTORY)
    try:
        _check(os.fstat(folder), f"its folder {file.parent}", owner)
        handle = _opened(Path(file.name), flags, folder)
        try:
            _check(os.fstat(handle), "it", owner)
            return files.content(handle, MOST_BYTES, str(file))
        finally:
            os.close(handle)
    finally:
        os.close(folder)


def _opened(path: Path, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(path, flags, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise
        mode = os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
        what = "is a link" if stat.S_ISLNK(mode) else "is no folder"
        raise OSError(error.errno, f"{path} {what}") from error


def _check(facts: os.stat_result, what: str, owner: int) -> None:
    if facts.st_uid != owner:
        raise OSError(
            errno.EPERM, f"{what} belongs to user {facts.st_uid}, not {owner}"
        )
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        others = "others" if facts.st_mode & stat.S_IWOTH else "its group"
        raise OSError(errno.EPERM, f"{what} may be written by {others}")


def ceilings(fields: Fields) -> dict[str, Ceiling]:
    """Read the ceilings under ``limits``, by the name of the field of Limits."""
    limits = fields.section("limits")
    return {
        limit.field: Ceiling(most, limits.place(limit.key))
        for limit in LIMITS
        if (most := limits.limit(limit, None)) is not None
    }


def images(fields: Fields) -> AllowList | None:
    """Read ``images``, the patterns of the only ones; None where that is absent."""

    def wrong(pattern: str) -> str:
        if "://" in pattern:
            return "is an address: names of images have no `https://`"
        return "" if _IMAGE.fullmatch(pattern) else "fits no name of an image"

    return _allowed(fields, "images", IMAGES, wrong)


def _policy(fields: Fields, file: str) -> Policy:

    def host_wrong(pattern: str) -> str:
        fits = _HOST.fullmatch(pattern) or _network(pattern)
        return "" if fits else _no_host(pattern)

    profile = fields.read("profile", None, _PROFILE, "strict")
    enforced = fields.read("strict_limits", None, SWITCH, "true")
    listed = images(fields)
    private = _list(fields, "private", PRIVATE, _private_wrong)
    return Policy(
        ceilings=ceilings(fields),
        strict=fields.place("profile") if profile is Profile.STRICT else None,
        strict_limits=fields.place("strict_limits") if enforced else None,
        images=(listed,) if listed else (),
        data_hosts=_allowed(fields, "data", HOSTS, host_wrong),
        private=tuple(
            PrivateTarget(name, place, _network(name)) for name, place in private or ()
        ),
        file=file,
    )


def _allowed(
    fields: Fields, key: str, example: str, wrong: Callable[[str], str]
) -> AllowList | None:
    names = _list(fields, key, example, wrong)
    if names is None:
        return None
    return AllowList(tuple(name for name, _ in names), fields.place(key))


def _list(
    fields: Fields, key: str, example: str, wrong: Callable[[str], str]
) -> list[tuple[str, Place]] | None:
    """Read a list of names, with their places; None if there is no list."""
    from runner.spec.yamlfile import ScalarNode, kind

    if not fields.has(key):
        return None
    names = []
    for path, node in fields.items(key, example):
        name = node.text.strip() if isinstance(node, ScalarNode) else ""
        why = wrong(name) if name else "is not a name"
        if why:
            hint = f"expected e.g. `{key}: {example}`"
            fields.problems.error(
                f"{path} is {kind(node)}, which {why}", node.place, hint
            )
        else:
            names.append((name, node.place))
    return names


def _private_wrong(name: str) -> str:
    """Return why a name is neither a host's nor a network; "" if it is."""
    if _network(name) or ("/" not in name and _NAME.fullmatch(name)):
        return ""
    if "*" in name:
        return "has a pattern: only whole names of hosts can be looked up"
    address, slash, _ = name.partition("/")
    if not _network(address):
        return _no_host(name)
    try:
        return f"is no network: did you mean {ip_network(name, strict=False)}?"
    except ValueError:
        wrong = "is no network: its part after the slash is wrong"
        return wrong if slash else _no_host(name)


def _network(name: str) -> Network | None:
    """Read an address or a network such as 10.1.0.0/16; None if it is neither."""

    try:
        return ip_network(name.strip("[]"))
    except ValueError:
        return None


def _no_host(name: str) -> str:
    if "/" in name:
        return "is more than a host: write its name alone"
    return "is no name of a host"
