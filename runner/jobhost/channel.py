"""One line at a Unix socket, with open files beside it (SCM_RIGHTS).

Neither end trusts the other: a line, the number of its files and the time that it takes
are bounded.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence

from msgspec import Struct

PIECE_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("3i")


class PeerCredentials(Struct, frozen=True):
    """The process at the other end of a Unix socket, with its user and group."""

    pid: int
    uid: int
    gid: int


def credentials(peer: socket.socket) -> PeerCredentials:
    """Return who is at the other end, as the kernel knows (unix(7), SO_PEERCRED)."""
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerCredentials(*_CREDENTIALS.unpack(found))


def read(
    peer: socket.socket, most_bytes: int, most_files: int, within_s: float
) -> tuple[bytes, list[int]]:
    """Return the peer's line, and the files that came with it, which are the caller's.

    Raises:
        ValueError: it is too long or not whole, or too many files came.
        OSError: the peer is gone, or silent for ``within_s``.
    """
    until = time.monotonic() + within_s
    line, files = bytearray(), list[int]()
    try:
        while not line.endswith(b"\n"):
            peer.settimeout(max(until - time.monotonic(), 0.001))
            data, came, flags, _ = socket.recv_fds(
                peer, PIECE_BYTES, most_files + 1, socket.MSG_CMSG_CLOEXEC
            )
            files += came
            line += data
            if flags & socket.MSG_CTRUNC or len(files) > most_files:
                raise ValueError(f"more than {most_files} files came")
            if not data:
                raise ValueError("the line is not whole")
            if b"\n" in data[:-1]:
                raise ValueError("more than one line came")
            if len(line) > most_bytes:
                raise ValueError(f"the line is longer than {most_bytes:,} bytes")
            if time.monotonic() > until:
                raise TimeoutError("the line does not end")
    except BaseException:
        close(files)
        raise
    return bytes(line), files


def write(
    peer: socket.socket, line: bytes, files: Sequence[int], within_s: float
) -> None:
    """Send a line, and files beside it; raise OSError if the peer does not take it."""
    peer.settimeout(within_s)
    sent = socket.send_fds(peer, [line], files) if files else 0
    if sent < len(line):
        peer.sendall(memoryview(line)[sent:])


def close(files: Sequence[int]) -> None:
    """Close files that came."""
    for file in files:
        os.close(file)
