"""Which addresses are private: this machine's, and those of the networks around it.

``ipaddress``' own ``is_private`` is no help: it also counts the ranges for documents,
and counts differently from one Python to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "224.0.0.0/3",
        ),
    )
)
_IPV6 = tuple(
    map(
        IPv6Network,
        (
            *("::/127", "64:ff9b:1::/48", "2001::/32"),  # the last is Teredo
            *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
        ),
    )
)
_IPV4_WITHIN = (("::", 96), ("::ffff:0:0", 96), ("64:ff9b::", 96), ("2002::", 16))
"""Where IPv6 has IPv4 addresses: compatible, mapped, NAT64 and 6to4.

Each is a prefix and the number of its bits, which the IPv4 address follows.
"""


def within_ipv6(network: IPv4Network) -> tuple[IPv6Network, ...]:
    """Return the forms of an IPv4 network in IPv6."""
    return tuple(
        IPv6Network(
            (
                int(IPv6Address(prefix)) | int(network[0]) << (96 - bits),
                bits + network.prefixlen,
            )
        )
        for prefix, bits in _IPV4_WITHIN
    )


PRIVATE: tuple[Network, ...] = (
    *_IPV4,
    *_IPV6,
    *(form for network in _IPV4 for form in within_ipv6(network)),
)
"""The networks that are not public, multicast and reserved ones among them."""


def is_private(address: Address) -> bool:
    """Whether an address is this machine's or of a network that is not public."""
    return _has(PRIVATE, address)


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    """Whether one of the networks has the address, in any of its forms."""
    return _has((form for each in networks for form in forms(each)), address)


def forms(network: Network) -> tuple[Network, ...]:
    """Return a network, and its forms in IPv6 if it is of IPv4."""
    if isinstance(network, IPv4Network):
        return (network, *within_ipv6(network))
    return (network,)


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
