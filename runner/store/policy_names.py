"""The names of images, hosts and networks that a policy may list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

IMAGES = '["debian:*", "registry.example.org/course/*"]'
HOSTS = '["*.example.org", "files.lab"]'
PRIVATE = '["10.1.0.0/16", "files.lab"]'

_IMAGE = re.compile(r"[\w.:/@*?\[\]!-]+", re.ASCII)
_HOST = re.compile(r"[\w.*?-]+", re.ASCII)
_NAME = re.compile(r"[\w.-]*[A-Za-z_][\w.-]*", re.ASCII)


def image_wrong(pattern: str) -> str:
    """Return why a pattern fits no image; "" if it may."""
    if "://" in pattern:
        return "is an address: names of images have no `https://`"
    return "" if _IMAGE.fullmatch(pattern) else "fits no name of an image"


def host_wrong(pattern: str) -> str:
    """Return why a pattern fits no host of data files; "" if it may."""
    return "" if _HOST.fullmatch(pattern) or network(pattern) else _no_host(pattern)


def private_wrong(name: str) -> str:
    """Return why a name is neither a host's nor a network; "" if it is."""
    if network(name) or ("/" not in name and _NAME.fullmatch(name)):
        return ""
    if "*" in name:
        return "has a pattern: only whole names of hosts can be looked up"
    return why if (why := _no_network(name)) else _no_host(name)


def network(name: str) -> IPv4Network | IPv6Network | None:
    """Read an address or a network such as 10.1.0.0/16; None if it is neither."""
    from ipaddress import ip_network  # slow to import, and few policies need it

    try:
        return ip_network(name.strip("[]"))
    except ValueError:
        return None


def _no_host(name: str) -> str:
    if "/" in name:
        return "is more than a host: write its name alone"
    return "is no name of a host"


def _no_network(name: str) -> str:
    """Return what of a network's address is wrong; "" if it is none at all."""
    from ipaddress import ip_network

    address, slash, _ = name.partition("/")
    if not network(address):
        return ""
    try:
        return f"is no network: did you mean {ip_network(name, strict=False)}?"
    except ValueError:
        return "is no network: its part after the slash is wrong" if slash else ""
