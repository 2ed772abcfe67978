"""The certificate that a server shows, which its clients may know by its fingerprint.

What needs the package cryptography is in ``certifying``: a server that has its
certificate does without.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from runner import files
from runner.core import Problem
from runner.core.errors import ConfigError
from runner.wire.addresses import fingerprint_of

MOST_BYTES = 1 << 20
_END = "-----END CERTIFICATE-----"


def fingerprint(certificate: Path) -> str:
    """Return the fingerprint of a file's first certificate, as `rai login` shows it.

    Raises:
        ConfigError: the file cannot be read, or holds none.
    """
    try:
        text = files.read(certificate, MOST_BYTES).decode("ascii")
        first, end, _ = text[text.index("-----BEGIN CERT") :].partition(_END)
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(first + end))
    except (OSError, ValueError) as error:
        text = f"{certificate}: cannot be read as a certificate: {error}"
        raise ConfigError(text) from error


def check(certificate: Path, key: Path) -> None:
    """Refuse files that are no certificate with its key.

    Raises:
        ConfigError: they are not there, cannot be read, or do not belong together.
    """
    fingerprint(certificate)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            certificate, key, password=_no_password
        )
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        text = f"{key} is no key of the certificate {certificate}: {said}"
        hint = "--tls takes CERTIFICATE,KEY as PEM files, the key without a password"
        raise ConfigError(Problem(text, hint=hint)) from error


def _no_password() -> str:
    raise ValueError("it has a password")
