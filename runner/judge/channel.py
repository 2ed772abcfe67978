"""Messages between the judge and the player: JSON over a socket pair.

What comes from the player is hostile: a message is at most 64 KiB, and waited for up to
a time limit.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

MOST_BYTES = 64 << 10
LONGEST_SEND_S = 2

Message = Mapping[str, Any]


class ChannelError(Exception):
    """The other side has ended, is late, or sends what is no message."""


class LateError(ChannelError):
    """No message came in time."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that keep messages apart: the judge's, the player's.

    The judge waits a limited time also for a player that reads nothing.
    """
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    limit = struct.pack("ll", LONGEST_SEND_S, 0)  # struct timeval
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return ours, its


def send(to: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Send a message, with file descriptors."""
    data = json.dumps(message).encode()
    if len(data) > MOST_BYTES:
        raise ChannelError(f"a message of {len(data)} bytes is too long")
    try:
        socket.send_fds(to, [data], descriptors)
    except BlockingIOError:
        raise LateError("the other process does not read") from None
    except OSError as error:
        raise ChannelError(f"the other process has ended: {error}") from error


def receive(
    source: socket.socket, timeout_s: float | None = None, descriptors: int = 0
) -> tuple[Message, list[int]]:
    """Return a message, and the file descriptors, at most so many, that came with it.

    Raises LateError after ``timeout_s``, and ChannelError.
    """
    if timeout_s is not None:
        _await(source, timeout_s)
    try:
        data, given, _, _ = socket.recv_fds(source, MOST_BYTES, descriptors)
    except OSError as error:
        raise ChannelError(f"the other process has ended: {error}") from error
    if not data:
        raise ChannelError("the other process has ended")
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ChannelError("the other process sends what is no message") from error
    if not isinstance(message, dict):
        raise ChannelError("the other process sends what is no message")
    return message, given


def ready(source: socket.socket) -> bool:
    """Whether ``receive`` has something to return or raise; it waits for nothing."""
    try:
        source.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _await(source: socket.socket, timeout_s: float) -> None:
    poll = select.poll()
    poll.register(source, select.POLLIN)
    if not poll.poll(max(0, int(1000 * timeout_s))):
        raise LateError(f"no answer within {timeout_s:g} s")
