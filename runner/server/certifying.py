"""Make a server's own certificate, and read what a certificate says."""

from __future__ import annotations

import ipaddress
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from runner import files
from runner.core.errors import ConfigError
from runner.wire.addresses import fingerprint_of

VALID = timedelta(days=3653)
MOST_BYTES = 1 << 20
MOST_NAME = 64
"""The longest common name that a certificate may have (RFC 5280, appendix A)."""


class CertificateFacts(Struct, frozen=True):
    """A certificate: its fingerprint as `rai login` shows it, its names, and its end.

    ``ends_at`` is in seconds since 1970.
    """

    fingerprint: str
    names: tuple[str, ...]
    ends_at: float


def make(certificate: Path, key: Path, names: Sequence[str]) -> None:
    """Write a new key, which only this user can read, and a certificate for the names.

    The key is of the curve P-256; names of hosts and addresses are told apart.
    """
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, platform.node()[:MOST_NAME] or "rai")]
    )
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
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
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


def read(certificate: Path) -> CertificateFacts:
    """Return what a certificate says, the first of the file.

    Raises:
        ConfigError: the file cannot be read, or holds none.
    """
    try:
        found = x509.load_pem_x509_certificate(files.read(certificate, MOST_BYTES))
    except (OSError, ValueError) as error:
        text = f"{certificate}: cannot be read as a certificate: {error}"
        raise ConfigError(text) from error
    whole = found.public_bytes(serialization.Encoding.DER)
    return CertificateFacts(
        fingerprint_of(whole),
        tuple(_names(found)),
        found.not_valid_after_utc.timestamp(),
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _names(found: x509.Certificate) -> list[str]:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    addresses = names.value.get_values_for_type(x509.IPAddress)
    return [
        *names.value.get_values_for_type(x509.DNSName),
        *map(str, addresses),
    ]
