"""A network of a run's own, on this machine: all that is public, and name lookup.

A program holds a network namespace, and pasta or slirp4netns carries packets between it
and this machine's network. The rules that refuse private addresses are set before they
are connected. The run's commands enter the namespace without any right to change it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

from msgspec import Struct

from runner.core import Problem, Reason
from runner.core.errors import EngineError
from runner.core.policy import PrivateTarget
from runner.engines import private
from runner.engines.folders import Folders
from runner.engines.local.host import RESOLVER
from runner.engines.local.layout import Bind
from runner.process.child import Beside, beside

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
    rules = private.rules_here([IPv4Address(NAME_SERVER)], targets)
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
def _held(rules: private.Reach) -> Iterator[Beside]:
    """Hold a new network namespace with rules, and no way out yet."""
    space = ["unshare", "--user", "--map-root-user", "--net", "--"]
    script = ["/bin/sh", "-c", HOLD, "rai", *private.command(rules)]
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
