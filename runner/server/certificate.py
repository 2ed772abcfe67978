"""The certificate that a server shows, which its clients may know by its fingerprint.

The package cryptography is loaded where a certificate is made or examined: a server
that has its own does without.
"""

from __future__ import annotations

import os
import platform
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from runner import files
from runner.core import Problem
from runner.core.errors import ConfigError
from runner.wire.addresses import fingerprint_of

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

VALID = timedelta(days=3653)
MOST_BYTES = 1 << 20
MOST_NAME = 64
"""The longest common name that a certificate may have (RFC 5280, appendix A)."""

_END = "-----END CERTIFICATE-----"


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
        said = getattr(error, "strerror", None) or str(error)
        text = f"{key} is no key of the certificate {certificate}: {said}"
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
