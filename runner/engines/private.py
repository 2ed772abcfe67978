"""What a run or a build may not reach, as the program netfilter.py takes it."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct, json, to_builtins

from runner.core.addresses import PRIVATE, Address, Network, forms, is_private, network
from runner.core.policy import PrivateTarget
from runner.engines import netfilter

LOOK_UP_S = 5.0
MOST_ADDRESSES = 64
_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


class Reach(Struct, frozen=True):
    """Networks, as texts; the first list that has an address decides.

    ``servers`` are name servers, of which only questions may be asked.
    """

    servers: tuple[str, ...]
    open: tuple[str, ...]
    closed: tuple[str, ...]


def rules(
    servers: Iterable[Address], opened: Iterable[Network], own: Iterable[Address]
) -> Reach:
    """Return the rules; ``own`` are this machine's addresses. Pure."""
    exposed = [each for each in own if not is_private(each)]
    return Reach(
        servers=tuple(f"{each}/{each.max_prefixlen}" for each in servers),
        open=tuple(str(form) for each in opened for form in forms(each)),
        closed=(
            *map(str, PRIVATE),
            *(f"{each}/{each.max_prefixlen}" for each in exposed[:MOST_ADDRESSES]),
        ),
    )


def rules_here(servers: Iterable[Address], targets: Sequence[PrivateTarget]) -> Reach:
    """Return the rules for this machine, with what its policy opens."""
    return rules(servers, _networks(targets), own_addresses())


def command(wanted: Reach, namespace: str = "") -> list[str]:
    """Return the command line that sets the rules in a namespace, a file of /proc."""
    words = [
        sys.executable,
        "-I",
        "-S",
        netfilter.__file__,
        json.encode(wanted).decode(),
    ]
    return [*words, namespace] if namespace else words


@cache
def refusal() -> str:
    """Return why rules cannot be set on this machine by root; "" if they can.

    It is found by trying, in a namespace that ends with the thread that makes it.
    """
    with ThreadPoolExecutor(1, "try rules") as pool:
        return pool.submit(_tried).result()


def _tried() -> str:
    try:
        netfilter.leave()
        netfilter.close(to_builtins(Reach(("10.0.0.1/32",), (), ("::/127",))))
    except (OSError, AttributeError) as error:  # AttributeError: where Linux is not
        return str(error)
    return ""


def name_servers(text: str) -> tuple[Address, ...]:
    """Return the addresses that a resolv.conf names. Pure."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["nameserver"] and len(words) > 1:
            with suppress(ValueError):
                found.append(ip_address(words[1].partition("%")[0]))
    return tuple(dict.fromkeys(found))


def own_addresses() -> tuple[Address, ...]:
    """Return the addresses of this machine's interfaces; none where Linux is not."""
    with suppress(OSError):
        trie = Path("/proc/net/fib_trie").read_text()
        six = Path("/proc/net/if_inet6")
        return parsed(trie, six.read_text() if six.exists() else "")
    return ()


def parsed(trie: str, six: str) -> tuple[Address, ...]:
    """Return the addresses in the kernel's two lists. Pure."""
    four = [ip_address(text) for text in _LOCAL.findall(trie)]
    more = [IPv6Address(int(line.split()[0], 16)) for line in six.splitlines()]
    return tuple(dict.fromkeys((*four, *more)))


def _networks(targets: Sequence[PrivateTarget]) -> Iterator[Network]:
    """Yield the networks of a policy; the names of hosts are looked up."""
    for target in targets:
        if target.network is not None:
            yield target.network
        else:
            yield from _looked_up(target.name)


@cache
def _looked_up(host: str) -> tuple[Network, ...]:
    """Return a host's addresses; none if the name server does not tell them in time."""
    pool = ThreadPoolExecutor(1, "look up")
    try:
        asked = pool.submit(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        texts = {str(found[4][0]) for found in asked.result(LOOK_UP_S)}
    except (OSError, TimeoutError, UnicodeError):
        return ()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return tuple(each for text in sorted(texts) if (each := network(text)))
