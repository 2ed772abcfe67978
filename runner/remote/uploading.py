"""Sending a packed project in pieces, from where an earlier attempt ended."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from runner.remote.problems import (
    CONFLICT,
    IN_USE,
    NOT_AS_ANNOUNCED,
    NoServerError,
    RefusedError,
    UnreachableError,
)
from runner.remote.retrying import Pauses
from runner.wire.uploads import UploadRequest, UploadState

if TYPE_CHECKING:
    from runner.remote.api import ServerClient
    from runner.remote.connection import Body

PIECE_BYTES = 8 << 20
MOST_IN_VAIN = 5
"""After so many answers, one after another, of which none got on, it is given up."""

MOST_WRONG = 2
"""So often a file that arrived with another checksum is sent anew."""

Progress = Callable[[int, int], None]
"""Told how many bytes were sent, and of how many; the first may go back."""


def upload(
    client: ServerClient, path: Path, progress: Progress | None = None
) -> UploadState:
    """Send a file, and return its upload when the server has checked all of it.

    What the server has of the same file, from whatever process, is not sent again.

    Raises:
        UnreachableError: the server is away for longer than the client's patience.
        RefusedError: it does not take the file.
    """
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        request = UploadRequest(sha256, file.tell())
        return _Sending(client, file, request, progress).all()


class _Sending:
    """One file on its way to a server."""

    def __init__(
        self,
        client: ServerClient,
        file: BinaryIO,
        request: UploadRequest,
        progress: Progress | None,
    ) -> None:
        self._client, self._file, self._request = client, file, request
        self._progress = progress
        self._pauses = Pauses(client.patience)
        self._furthest, self._in_vain, self._wrong = -1, 0, 0

    def all(self) -> UploadState:
        """Send what is missing until the upload is whole; return it."""
        state = self._reserved()
        while not state.whole:
            try:
                state = self._client.send(state.id, self._piece(state), state.offset)
                if not self._got(state):
                    self._count()
            except UnreachableError as error:
                self._pauses.wait(error)
                state = self._reserved()
            except RefusedError as error:
                self._take(error)
                state = self._reserved()
        self._tell(self._request.size)
        return state

    def _reserved(self) -> UploadState:
        """Ask how much the server has."""
        while True:
            try:
                state = self._client.reserve(self._request)
            except RefusedError as error:
                self._take(error)
            else:
                self._got(state)
                return state

    def _take(self, error: RefusedError) -> None:
        """Go on after a refusal that passes; raise the others, and one too many."""
        status = error.refusal.status
        if status == IN_USE:  # by another process, or by a connection that broke
            self._pauses.wait(UnreachableError(*error.problems))
            return
        if status == NOT_AS_ANNOUNCED and self._wrong < MOST_WRONG:
            self._furthest, self._wrong = -1, self._wrong + 1  # all of it is sent anew
        elif status == CONFLICT or error.missing:
            self._count()
        else:
            raise error

    def _got(self, state: UploadState) -> bool:
        """Note how much the server has; return whether that is more than before."""
        size, url = self._request.size, self._client.entry.url
        if not 0 <= state.offset <= size:
            raise NoServerError(f"{url} has {state.offset:,} bytes of {size:,}")
        if state.offset <= self._furthest:
            return state.whole
        self._furthest, self._in_vain = state.offset, 0
        self._pauses.restart()
        return True

    def _count(self) -> None:
        """Count an answer that got nowhere; raise NoServerError after some."""
        self._in_vain += 1
        if self._in_vain >= MOST_IN_VAIN:
            url, size = self._client.entry.url, self._request.size
            text = f"{url} took {max(self._furthest, 0):,} bytes of {size:,}"
            raise NoServerError(f"{text}, and no more")

    def _piece(self, state: UploadState) -> Body:
        size = min(PIECE_BYTES, self._request.size - state.offset)
        if not size:
            return b""  # asks for a look at what is there
        return _SentPiece(self._file, state.offset, size, self._tell)

    def _tell(self, sent: int) -> None:
        if self._progress is not None:
            self._progress(sent, self._request.size)


class _SentPiece(io.BufferedIOBase):
    """A part of a file, as requests reads what it sends."""

    def __init__(
        self, file: BinaryIO, start: int, size: int, tell: Callable[[int], None]
    ) -> None:
        self._file, self._start, self._size, self._tell = file, start, size, tell
        self._at = 0

    def __len__(self) -> int:
        return self._size

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how much was read."""
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        left = self._size - self._at
        most = left if size is None or size < 0 else min(size, left)
        self._file.seek(self._start + self._at)
        found = self._file.read(most)
        self._at += len(found)
        self._tell(self._start + self._at)
        return found
