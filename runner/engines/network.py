"""A network of a run's own on this machine, and what it may not reach."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from msgspec import Struct, json, to_builtins

from runner.core import Problem, Reason
from runner.core.errors import EngineError
from runner.core.policy import (
    PRIVATE,
    Address,
    Network,
    PrivateTarget,
    forms,
    is_private,
    network,
)
from runner.engines import netfilter
from runner.engines.folders import Folders
from runner.engines.local.layout import RESOLVER, Bind
from runner.system.child import Beside, beside

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


ADDRESS, GATEWAY, NAME_SERVER = "10.0.2.100", "10.0.2.2", "10.0.2.3"
START_S = 5.0
"""The time that each step of connecting may take."""

TUN = Path("/dev/net/tun")
INSTALL = "install one: `apt install passt`, or `apt install slirp4netns`"

HOLD = """\
"$@" || exit
echo closed
until grep -q "^[^[:space:]]*[[:space:]]00000000[[:space:]]" /proc/net/route
do sleep 0.01
done
echo connected
exec cat
"""
"""Set the rules, wait until there is a way out, and stay until stdin ends."""


class NetworkNamespace(Struct, frozen=True):
    """A network to run commands in; ``holder`` is the process that holds it."""

    holder: int
    by: str

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs another one in it.

        Root may enter it alone; another user has that right in its user namespace only.
        """
        spaces = f"/proc/{self.holder}/ns"
        user = [f"--user={spaces}/user", "--preserve-credentials"]
        owner = [] if os.getuid() == 0 else user
        return ["nsenter", f"--net={spaces}/net", *owner, "--", *command]


class Connector(Struct, frozen=True):
    """A program that connects a namespace, and its options."""

    program: str
    options: tuple[str, ...]
    roots: tuple[str, ...] = ()
    last: tuple[str, ...] = ()

    def argv(self, holder: int) -> list[str]:
        """Return the command line; root's may need options of its own."""
        more = self.roots if os.getuid() == 0 else ()
        return [self.program, *self.options, *more, str(holder), *self.last]


WAYS: tuple[Connector, ...] = (
    Connector(
        "pasta",
        (
            *("--foreground", "--quiet", "--ipv4-only", "--config-net"),
            *("--address", ADDRESS, "--netmask", "24", "--gateway", GATEWAY),
            *("--dns-forward", NAME_SERVER, "--no-map-gw"),
            *("--tcp-ports", "none", "--udp-ports", "none"),
            *("--tcp-ns", "none", "--udp-ns", "none"),
        ),
        roots=("--runas", "0"),  # else it could not enter a namespace of root's
    ),
    Connector(
        "slirp4netns",
        (
            *("--configure", "--mtu=65520", "--disable-host-loopback"),
            *("--enable-sandbox", "--enable-seccomp"),
        ),
        last=("tap0",),
    ),
)
"""The programs, in the order in which they are tried."""


def resolver(folders: Folders) -> Bind | None:
    """Write the file that names the network's name server, to be shown in a sandbox.

    It takes the place of the host's; None where that has none.
    """
    folders.resolver.write_text(f"nameserver {NAME_SERVER}\n")
    folders.resolver.chmod(0o644)
    shown = RESOLVER.resolve()
    return Bind(str(folders.resolver), str(shown)) if shown.is_file() else None


@contextmanager
def connected(targets: Sequence[PrivateTarget] = ()) -> Iterator[NetworkNamespace]:
    """Make a network, and remove it on exit; ``targets`` are what a policy opens.

    Raises:
        EngineError: no program can connect it here.
    """
    rules = rules_here([IPv4Address(NAME_SERVER)], targets)
    failures = []
    for way in WAYS:
        if shutil.which(way.program) is None:
            failures.append(f"{way.program}: not installed")
            continue
        with ExitStack() as stack:
            holder = stack.enter_context(_held(rules))
            connector = stack.enter_context(
                beside(way.argv(holder.pid), _environment())
            )
            if holder.says(b"connected", START_S, connector):
                yield NetworkNamespace(holder.pid, way.program)
                return
        failures.append(
            f"{way.program}: {connector.complaint or 'it does not connect'}"
        )
    raise EngineError(_problem(failures), reason=Reason.NO_ENGINE)


@contextmanager
def _held(rules: Reach) -> Iterator[Beside]:
    """Hold a new network namespace with rules, and no way out yet."""
    space = ["unshare", "--user", "--map-root-user", "--net", "--"]
    script = ["/bin/sh", "-c", HOLD, "rai", *command(rules)]
    with beside([*space, *script], _environment(), heard=True) as holder:
        if not holder.says(b"closed", START_S):
            why = holder.complaint or "it does not start"
            raise EngineError(_problem([f"unshare: {why}"]), reason=Reason.NO_ENGINE)
        yield holder


def _problem(failures: Sequence[str]) -> Problem:
    """Return the problem of a machine where none of the ways works."""
    text = f"`network: true` needs pasta or slirp4netns here ({'; '.join(failures)})"
    installed = any(shutil.which(way.program) for way in WAYS)
    if installed and not os.access(TUN, os.R_OK | os.W_OK):
        return Problem(text, hint=f"allow this user to open {TUN}: `chmod 666 {TUN}`")
    return Problem(text, hint="" if installed else INSTALL)


@cache
def missing() -> tuple[Problem, ...]:
    """Return why a run cannot have a network here; found by trying once."""
    try:
        with connected():
            return ()
    except EngineError as error:
        return error.problems


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath)}
