"""Sending a packed project: whole, unless the server has it, and anew if it broke."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from runner.remote.api import Pauses
from runner.remote.problems import NOT_AS_ANNOUNCED, RefusedError, UnreachableError

if TYPE_CHECKING:
    from runner.remote.api import ServerClient

MOST_BROKEN = 5
"""So many connections may break while a file is sent, before it is given up."""

MOST_WRONG = 2
"""So often a file that arrived with another checksum is sent anew."""

Progress = Callable[[int, int], None]
"""Told how many bytes were sent, and of how many; the first may go back."""


def upload(client: ServerClient, path: Path, progress: Progress | None = None) -> str:
    """Send a file, and return its SHA-256 when the server has checked all of it.

    A file that the server has, from whatever process, is not sent again.

    Raises:
        UnreachableError: the server is away for longer than the client's patience.
        RefusedError: it does not take the file.
    """
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
    tell = progress or (lambda sent, size: None)
    pauses, broken, wrong = Pauses(client.patience), 0, 0
    while not client.has_upload(sha256, size):
        with _Sent(path, lambda sent: tell(sent, size)) as source:
            try:
                client.put_upload(sha256, source)
                return sha256
            except UnreachableError as error:
                if source.tell():  # it got that far, so patience begins anew
                    broken += 1
                    pauses.restart()
                if broken > MOST_BROKEN:
                    raise
                pauses.wait(error)
            except RefusedError as error:
                wrong += 1
                if error.refusal.status != NOT_AS_ANNOUNCED or wrong > MOST_WRONG:
                    raise
    tell(size, size)
    return sha256


class _Sent(io.FileIO):
    """A file that tells how much of it was read, as requests reads what it sends."""

    def __init__(self, path: Path, told: Callable[[int], None]) -> None:
        super().__init__(path)
        self._told = told

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        found = super().read(-1 if size is None else size)
        self._told(self.tell())
        return found
