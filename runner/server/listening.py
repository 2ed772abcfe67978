"""Where a server listens, and the certificate that it shows there."""

from __future__ import annotations

import errno
import os
import platform
import socket
import ssl
import stat
import struct
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from runner.core import Problem
from runner.core.addresses import fingerprint_of, is_loopback
from runner.core.errors import BusyError, ConfigError, UsageError
from runner.system import files

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName


BACKLOG = 2048
ANY = ("0.0.0.0", "::")
ANSWER_S = 2.0
VALID = timedelta(days=3653)
MOST_BYTES = 1 << 20
MOST_NAME = 64
"""The longest common name that a certificate may have (RFC 5280, appendix A)."""

_END = "-----END CERTIFICATE-----"
_CREDENTIALS = struct.Struct("3i")


def make(certificate: Path, key: Path, names: Sequence[str]) -> None:
    """Write a new key, which only this user can read, and a certificate for the names.

    The key is of the curve P-256; names of hosts and addresses are told apart.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    secret = ec.generate_private_key(ec.SECP256R1())
    called = platform.node()[:MOST_NAME] or "rai"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, called)])
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of clients may be behind.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName(list(map(_name, names))), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(server, critical=False)
        .sign(secret, hashes.SHA256())
    )
    certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = secret.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key.unlink(missing_ok=True)  # of a start that was killed before its certificate
    handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(written)
    files.write(certificate, made.public_bytes(serialization.Encoding.PEM))


def fingerprint(certificate: Path) -> str:
    """Return the fingerprint of a file's first certificate, as `rai login` shows it.

    Raises:
        ConfigError: the file cannot be read, or holds none.
    """
    return fingerprint_of(_first(certificate))


def ends_at(certificate: Path) -> float:
    """Return until when a file's first certificate is good, in seconds since 1970.

    Raises:
        ConfigError: the file cannot be read, or holds none.
    """
    from cryptography import x509

    whole = _first(certificate)
    try:
        found = x509.load_der_x509_certificate(whole)
    except ValueError as error:
        raise _unreadable(certificate, error) from error
    return found.not_valid_after_utc.timestamp()


def loaded(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what serves with a certificate and its key, by TLS 1.2 or newer.

    Raises:
        ConfigError: they are not there, cannot be read, or do not belong together.
    """
    _first(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        text = f"{key} is no key of the certificate {certificate}: {why}"
        hint = "--tls takes CERTIFICATE,KEY as PEM files, the key without a password"
        raise ConfigError(Problem(text, hint=hint)) from error
    return context


def _first(certificate: Path) -> bytes:
    """Return the first certificate of a file, in DER."""
    try:
        text = files.read(certificate, MOST_BYTES).decode("ascii")
        first, end, _ = text[text.index("-----BEGIN CERT") :].partition(_END)
        return ssl.PEM_cert_to_DER_cert(first + end)
    except (OSError, ValueError) as error:
        raise _unreadable(certificate, error) from error


def _unreadable(certificate: Path, error: Exception) -> ConfigError:
    return ConfigError(f"{certificate}: cannot be read as a certificate: {error}")


def _no_password() -> str:
    raise ValueError("it has a password")


def _name(text: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class ListenAt(Struct, frozen=True):
    """A host and a port, as `--listen` names them; "" is every address."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only programs of this machine reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        host = self.host or ANY[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse(text: str) -> ListenAt:
    """Parse `HOST:PORT`, `[ADDRESS]:PORT` or `:PORT`; raise UsageError otherwise."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    within = port.isascii() and port.isdecimal() and int(port) <= 65535
    if not colon or not within or (":" in host and not bracketed):
        hint = "write a host and a port, as 0.0.0.0:8443 or [::]:8443"
        raise UsageError(Problem(f"--listen {text}: it is no address", hint=hint))
    return ListenAt("" if host in ("*", ANY[0]) else host, int(port))


class PeerProcess(Struct, frozen=True):
    """The process at the other end of a Unix socket, with its user and group."""

    pid: int
    uid: int
    gid: int


def peer(link: socket.socket) -> PeerProcess:
    """Return who is at the other end, as the kernel knows (unix(7), SO_PEERCRED)."""
    found = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerProcess(*_CREDENTIALS.unpack(found))


def names(at: ListenAt, public_host: str = "") -> list[str]:
    """Return the names and addresses by which clients may know this machine.

    These are for a certificate, which holds ASCII.
    """
    found = [public_host, at.host if at.host not in ANY else "", "localhost"]
    found += [platform.node(), socket.getfqdn(), *_addresses(), "127.0.0.1", "::1"]
    fit = [name for name in found if name.isascii() and 0 < len(name) < 254]
    return list(dict.fromkeys(fit))


def public_host(at: ListenAt) -> str:
    """Return the name that others most likely reach this machine by."""
    if at.host not in ("", *ANY):
        return at.host
    full = socket.getfqdn()
    if full and not is_loopback(full) and not full.startswith("localhost"):
        return full
    return next(iter(_addresses()), platform.node())


def tcp(at: ListenAt) -> socket.socket:
    """Listen at a host and port.

    Raises:
        UsageError: the host is not this machine's, or this user may not.
        BusyError: another program listens there.
    """
    try:
        family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
        host = at.host or ANY[0]
        found = socket.getaddrinfo(host, at.port, family, socket.SOCK_STREAM)
        return socket.create_server(found[0][4], family=family, backlog=BACKLOG)
    except OSError as error:
        text = f"cannot listen at {at}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            problem = Problem(text, hint="name another port")
            raise BusyError(problem, advice="") from error
        low = "ports below 1024 are root's: name another, such as 8443"
        hint = low if error.errno == errno.EACCES else ""
        raise UsageError(Problem(text, hint=hint)) from error


def unix(path: Path, mode: int) -> socket.socket:
    """Listen at a Unix socket; one that nobody listens at is replaced.

    Raises:
        BusyError: another program listens there.
        UsageError: it cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            taken = server_at(path) is not None
        except BlockingIOError:  # its backlog is full
            taken = True
        if taken:
            text = f"another server listens at {path}"
            hint = "stop it first, or name another socket by --socket"
            raise BusyError(Problem(text, hint=hint), advice="")
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
        with ExitStack() as failed:
            made = failed.enter_context(socket.socket(socket.AF_UNIX))
            made.bind(os.fspath(path))
            path.chmod(mode)
            made.listen(BACKLOG)
            failed.pop_all()
        return made
    except OSError as error:
        text = f"cannot listen at {path}: {error.strerror or error}"
        hint = "name another by --socket"
        raise UsageError(Problem(text, hint=hint)) from error


def server_at(path: Path) -> PeerProcess | None:
    """Return which process listens at a Unix socket; None if none does.

    Raises:
        OSError: that cannot be told: it is another user's, or its backlog is full.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_S)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return None
        return peer(probe)


def _addresses() -> list[str]:
    """Return this machine's addresses that lead out."""
    found = []
    for family, far in (
        (socket.AF_INET, "192.0.2.1"),
        (socket.AF_INET6, "2001:db8::1"),
    ):
        with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect((far, 9))  # nothing is sent
            found.append(probe.getsockname()[0])
    return [name for name in found if not is_loopback(name)]
