"""Which hosts data files may be downloaded from, by name and by address."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from runner.core.addresses import Address, is_in, is_private
from runner.core.policy import Policy, PrivateTarget

POLICY_FILE = "/etc/rai/policy.yml"

_NETLOC = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PRINTABLE = re.compile(r"[!-~]+")


class WebAddress(Struct, frozen=True):
    """An http or https address that can be asked for."""

    url: str
    secure: bool
    host: str


def web_address(url: str) -> WebAddress:
    """Check an address; raise UnavailableError if it is not a plain one of the web.

    Others are read differently by different programs: `http://a%2eb/`, `http://a@b/`.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # which may be no number, or too large
    except ValueError as error:
        raise UnavailableError(f"its address is not valid: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UnavailableError("its address is not an http or https address")
    if "@" in parts.netloc:
        raise UnavailableError("its address has a user name, and rai sends none")
    found = _NETLOC.fullmatch(parts.netloc)
    if found is None or not _PRINTABLE.fullmatch(url):
        raise UnavailableError(
            "its address has characters that must be escaped (in the name of a host by"
            " punycode)"
        )
    return WebAddress(url, parts.scheme == "https", found["host"].strip("[]").lower())


def check(host: str, found: Iterable[Address], policy: Policy) -> None:
    """Raise UnavailableError if one of a host's addresses is private.

    A site's policy allows some of them, by the name of the host or by the address.
    """
    if _named(host, policy.private):
        return
    networks = [each.network for each in policy.private if each.network is not None]
    for address in found:
        if is_private(address) and not is_in(address, networks):
            raise _is_private(host, address, policy)


def literal(host: str) -> tuple[Address, ...]:
    """Return the addresses of a host that no name server is needed for.

    It is a number in any spelling (`0x7f.1`), or a name of this machine.
    """
    plain = host.removesuffix(".")
    if plain == "localhost" or plain.endswith(".localhost"):
        return (ip_address("127.0.0.1"),)
    try:
        found = socket.getaddrinfo(plain, None, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        return ()
    return tuple(of(each[4]) for each in found)


def of(socket_address: tuple[str | int, ...] | tuple[int, bytes]) -> Address:
    """Return the IP address among the numbers that a socket connects to."""
    return ip_address(str(socket_address[0]).partition("%")[0])


def _named(host: str, private: Iterable[PrivateTarget]) -> bool:
    plain = host.removesuffix(".")
    return any(
        each.network is None and each.name.lower().removesuffix(".") == plain
        for each in private
    )


def _is_private(host: str, address: Address, policy: Policy) -> UnavailableError:
    what = host if str(address) == host else f"{host} ({address})"
    return UnavailableError(
        f"{what} is of this machine or of a private network, and no line"
        f" `private: [{host}]` in {policy.file or POLICY_FILE} allows it"
    )


class UnavailableError(Exception):
    """A file is not available; the text continues the sentence "..., and"."""

    def __init__(
        self, why: str, *, retry: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(why)
        self.retry = retry
        self.unreachable = unreachable
