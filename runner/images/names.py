"""Names of images as Docker writes them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

KEY_REPOSITORY = "rai-build"
"""The repository of rai's own tags, which are keys of the images' inputs."""

RESERVED = (KEY_REPOSITORY, "rai/")

_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?|[A-Za-z0-9-]+:\d+|localhost)"
_NAME = (
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?"
    r"(?:@sha256:[0-9a-f]{64})?"
)
_DEFAULT_HOSTS = ("docker.io/", "index.docker.io/", "registry-1.docker.io/")


def valid(name: str) -> bool:
    """Whether Docker accepts the name."""
    return len(name) <= 255 and re.fullmatch(_NAME, name, re.ASCII) is not None


def reserved(name: str) -> bool:
    """Whether only rai may give the name."""
    return normalise(name).startswith(RESERVED)


def normalise(tag: str) -> str:
    """Return a name as an engine lists it: with a tag, without Docker Hub's host."""
    tag = without_hub(tag)
    if "@" in tag or ":" in tag.rpartition("/")[2]:
        return tag
    return f"{tag}:latest"


def without_hub(name: str) -> str:
    """Return a name without Docker Hub's host, which is the default."""
    for host in _DEFAULT_HOSTS:
        if name.startswith(host):
            name = name.removeprefix(host).removeprefix("library/")
    return name


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern fits a name: one without a tag, or with `*`, fits every tag.

    A wildcard of the tag fits no host with a port: `debian:*` is not `debian:5000/x`.
    """
    pattern, full = without_hub(pattern), normalise(name)
    wanted, given = repository(pattern), repository(full)
    tag = pattern.removeprefix(wanted)
    if not fnmatchcase(given, wanted):
        return False
    return tag in ("", ":*") or fnmatchcase(full.removeprefix(given), tag)


def repository(reference: str) -> str:
    """Return a name without its tag and digest."""
    name = reference.partition("@")[0]
    head, _, tag = name.rpartition(":")
    # A colon before a slash is that of a registry's port.
    return head if head and "/" not in tag else name
