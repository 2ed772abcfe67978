"""A site's policy: what no build file, option or setting may exceed. Pure.

Which addresses are private is decided here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from runner.core.build_spec import LIMITS, Limit, Limits, Profile
from runner.core.errors import Place, Problem
from runner.core.quantities import MIB, SIZE, SWITCH, TIME

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_IPV4 = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12"
    " 192.0.0.0/24 192.168.0.0/16 198.18.0.0/15 224.0.0.0/3"
)
# 2001::/32 is Teredo.
_IPV6 = "::/127 64:ff9b:1::/48 2001::/32 fc00::/7 fe80::/10 fec0::/10 ff00::/8"
_IPV4_WITHIN = (("::", 96), ("::ffff:0:0", 96), ("64:ff9b::", 96), ("2002::", 16))
"""Where IPv6 has IPv4 addresses: compatible, mapped, NAT64 and 6to4.

Each is a prefix and the number of its bits, which the IPv4 address follows.
"""


def forms(network: Network) -> tuple[Network, ...]:
    """Return a network, and its forms in IPv6 if it is of IPv4."""
    if isinstance(network, IPv6Network):
        return (network,)
    within = []
    for prefix, bits in _IPV4_WITHIN:
        address = int(IPv6Address(prefix)) | int(network[0]) << (96 - bits)
        within.append(IPv6Network((address, bits + network.prefixlen)))
    return (network, *within)


PRIVATE: tuple[Network, ...] = (
    *(form for text in _IPV4.split() for form in forms(IPv4Network(text))),
    *map(IPv6Network, _IPV6.split()),
)
"""The networks that are not public, multicast and reserved ones among them."""


def is_private(address: Address) -> bool:
    """Whether an address is this machine's or of a network that is not public."""
    return _has(PRIVATE, address)


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    """Whether one of the networks has the address, in any of its forms."""
    return _has((form for each in networks for form in forms(each)), address)


def _has(networks: Iterable[Network], address: Address) -> bool:
    """Whether one of the networks has the address, whatever its zone (of a link)."""
    plain = IPv6Address(int(address)) if address.version == 6 else address
    return any(plain in network for network in networks)


def network(text: str) -> Network | None:
    """Return the network or the one address that a text names; None for a host name.

    Bits of the host are ignored, so that ``10.1.2.3/16`` is ``10.1.0.0/16``.
    """
    try:
        return ip_network(text.strip().strip("[]"), strict=False)
    except ValueError:
        return None


Source = Place | str
"""What sets a rule: a line of the site's policy, or a server's role in words."""


FILE = "/etc/rai/policy.yml"
"""Only this file counts: no option, variable or setting names another."""

BUILD = "build"
"""The word in a list of images that allows to build a Dockerfile."""


class Ceiling(Struct, frozen=True):
    """The most that is allowed of one thing, and what says so."""

    most: float
    place: Source


class AllowList(Struct, frozen=True):
    """The patterns of the only names that are allowed, and where they are listed."""

    patterns: tuple[str, ...]
    place: Source

    def has_host(self, name: str) -> bool:
        """Whether a pattern fits the name of a host; `*` fits dots too."""
        host = name.lower().removesuffix(".")
        return any(fnmatchcase(host, pattern.lower()) for pattern in self.patterns)


class PrivateTarget(Struct, frozen=True):
    """A host or network that is not public, and may be reached nevertheless.

    ``name`` is what the policy says; ``network`` is None for the name of a host.
    """

    name: str
    place: Place
    network: IPv4Network | IPv6Network | None = None


class Policy(Struct, frozen=True):
    """What a site allows; by default everything.

    ``ceilings`` are by the name of the field of Limits. ``strict`` is what allows no
    other profile, ``strict_limits`` the line that allows no run some limit of which
    cannot be enforced. An image has to be on each list of ``images``; one is built only
    where each has the word BUILD. ``data_hosts`` are the only hosts that data files
    come from, None allows all. ``private`` are the addresses that runs and downloads
    may reach although they are not public. ``file`` is the file that says all this, ""
    if there is none.
    """

    ceilings: Mapping[str, Ceiling] = field(default_factory=dict)
    strict: Source | None = None
    strict_limits: Place | None = None
    images: tuple[AllowList, ...] = ()
    data_hosts: AllowList | None = None
    private: tuple[PrivateTarget, ...] = ()
    file: str = ""


NO_POLICY = Policy()


class RolePolicy(Struct, frozen=True):
    """What a server allows the runs of one role, within the site's own policy.

    ``ceilings`` are by the name of the field of Limits, in its unit; a name that is
    absent has none. ``images`` are patterns of the only images, None allows all.
    ``source`` names where it is said, for messages, such as "the role `student` of this
    server".
    """

    ceilings: Mapping[str, float] = field(default_factory=dict)
    images: tuple[str, ...] | None = None
    source: str = ""


def within(policy: Policy, role: RolePolicy) -> Policy:
    """Return what both the site and a server's role allow.

    Of two ceilings the lower counts, an image has to be on both lists, and the strict
    profile is the only one.

    Raises:
        ValueError: the role has a ceiling for what is no limit.
    """
    source = role.source or "this server"
    if unknown := sorted(role.ceilings.keys() - {limit.field for limit in LIMITS}):
        raise ValueError(f"{source}: no limits are {', '.join(unknown)}")
    ceilings = dict(policy.ceilings)
    for name, most in role.ceilings.items():
        if name not in ceilings or most < ceilings[name].most:
            ceilings[name] = Ceiling(most, source)
    images = policy.images
    if role.images is not None:
        images += (AllowList(role.images, source),)
    strict = policy.strict or source
    return replace(policy, ceilings=ceilings, strict=strict, images=images)


def fit(limits: Limits, policy: Policy) -> Limits:
    """Lower to the ceilings what stands at its default: nobody asked for that."""
    usual = Limits()
    changes: dict[str, Any] = {
        name: ceiling.most
        for name, ceiling in policy.ceilings.items()
        if getattr(limits, name) == getattr(usual, name) > ceiling.most
    }
    return replace(limits, **changes)


def over(limits: Limits, profile: Profile, policy: Policy) -> list[Problem]:
    """Return what exceeds a ceiling, with the line of the policy that sets it."""
    problems = []
    for limit in LIMITS:
        ceiling, asked = policy.ceilings.get(limit.field), limit.of(limits)
        if ceiling and asked > ceiling.most:
            text = f"resources.limits.{limit.key} is {_shown(limit, asked)}, "
            if limit.kind is SWITCH:
                text += "which is not allowed"
            else:
                text += f"and at most {_shown(limit, ceiling.most)} is allowed"
            problems.append(Problem(f"{text} by {ceiling.place}"))
    if policy.strict and profile is not Profile.STRICT:
        text = f"the {profile} profile is not allowed by {policy.strict}"
        hint = "have the project's Dockerfile build the image"
        hint = f"give `--profile strict`, or {hint}"
        problems.append(Problem(text, hint=hint))
    return problems


def _shown(limit: Limit, value: float) -> str:
    """Write a value so that it compares with another: all in one unit."""
    if limit.kind.unit == TIME.unit:
        return f"{value:,.10g} s"
    if limit.kind.unit == SIZE.unit:
        return f"{value / MIB:,.10g} MiB"
    return limit.kind.write(value)
