"""One digest for a set of files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def of_bytes(data: bytes) -> str:
    """Return the SHA-256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def of_set(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of the sorted lines `name NUL sha256 LF` of files.

    ``files`` are names with the SHA-256 of their content, in hexadecimal digits.
    """
    lines = (f"{name}\0{sha256}\n" for name, sha256 in sorted(files.items()))
    return of_bytes("".join(lines).encode())
