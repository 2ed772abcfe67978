"""Where data files may be downloaded from, and how many bytes a run may have."""

from __future__ import annotations

import math
import re
import shutil
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from runner.core import LIMITS, MIB, Limits, Problem
from runner.core.errors import ConfigError, NotAllowedError
from runner.core.policy import FILE, Address, Policy, is_in, is_private
from runner.core.quantities import size_text
from runner.core.work import SPARE_BYTES
from runner.system import files

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
    plain = host.removesuffix(".")
    names = [each.name.lower() for each in policy.private if each.network is None]
    if plain in (name.removesuffix(".") for name in names):
        return
    networks = [each.network for each in policy.private if each.network is not None]
    for address in found:
        if is_private(address) and not is_in(address, networks):
            what = host if str(address) == host else f"{host} ({address})"
            raise UnavailableError(
                f"{what} is of this machine or of a private network, and no line"
                f" `private: [{host}]` in {policy.file or FILE} allows it"
            )


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


class UnavailableError(Exception):
    """A file is not available; the text continues the sentence "..., and"."""

    def __init__(
        self, why: str, *, retry: bool = False, unreachable: bool = False
    ) -> None:
        super().__init__(why)
        self.retry = retry
        self.unreachable = unreachable


_LIMIT = next(limit for limit in LIMITS if limit.key == "data")


class Room:
    """The bytes that the data files of one run may still have.

    ``keep`` is called before bytes are added to those that are kept on this machine,
    and may remove others; it raises RaiError if they are too many.
    """

    def __init__(
        self, limits: Limits, cache: Path, keep: Callable[[int], None]
    ) -> None:
        self._most = self._left = limits.data_bytes
        self._cache, self._keep = cache, keep

    def need(self, size: int) -> None:
        """Raise NotAllowedError if one more file of this size is too much."""
        if size > self._left:
            text = (
                f"the data files of the run take more than {size_text(self._most)}, its"
                f" limit resources.limits.{_LIMIT.key}"
            )
            hint = f"raise it, e.g. `limits: {{data: {size_text(2 * self._most)}}}`"
            raise NotAllowedError(Problem(text, hint=hint))

    def take(self, size: int) -> None:
        """Count a file; raise NotAllowedError if it is too large."""
        self.need(size)
        self._left -= size

    def make(self, size: int) -> None:
        """Make room for bytes that are downloaded; raise RaiError if there is none."""
        self._keep(size)
        check_disk(self._cache, size)


def check_disk(folder: Path, size: int) -> None:
    """Raise ConfigError if a folder's disk is nearly full with so many bytes more."""
    if (left := free(folder) - size) < SPARE_BYTES:
        mount = files.mount(folder)
        text = (
            f"{size / MIB:,.0f} MiB of data files do not fit on the disk of {mount}:"
            f" {max(left, 0) / MIB:,.0f} MiB would be left, and rai leaves"
            f" {SPARE_BYTES / MIB:,.0f}"
        )
        hint = "remove files, or runs by `rai prune --older 1d`"
        raise ConfigError(Problem(text, hint=hint))


def free(folder: Path) -> float:
    """Return the free bytes of a folder's disk; infinite where it does not say."""
    with suppress(OSError):
        usage = shutil.disk_usage(folder)
        if usage.total:
            return usage.free
    return math.inf
