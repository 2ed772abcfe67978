"""Sending a packed project in pieces that a broken connection does not lose."""

from __future__ import annotations

from msgspec import Struct


class UploadRequest(Struct, frozen=True):
    """`POST /api/v1/uploads`: the file's SHA-256 (hex) and its size in bytes.

    The same file of the same team has the same upload, however often it is asked for.
    """

    sha256: str
    size: int


class UploadState(Struct, frozen=True):
    """How much of an upload the server has; ``whole`` once its SHA-256 is checked."""

    id: str
    sha256: str
    size: int
    offset: int
    whole: bool
