"""How much a server takes from its clients, in bytes, seconds and numbers.

Connections are held to these bounds in ``connections``, bodies in ``messages``,
requests in ``requests``, tries and log lines by the ``TryCounter`` here.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import ip_address

from runner.core import MIB

MOST_CONNECTIONS = 2000
MOST_OF_ONE = 400
"""From one address, or of one user of this machine; many may share an address."""

HANDSHAKE_S = 10.0
"""How long a client may take for the handshake of TLS."""

HEAD_S = 15.0
"""How long a connection may be without a request, until its headers are whole."""

REST_S = 2.0
"""How long what is left of a body may take whose request was answered."""

TAKE_S = 60.0
"""How long a client may take for a piece of an answer, at most some 256 KiB."""

STOP_S = 4.0
"""How long requests may go on once the server stops, and the end of TLS."""

MOST_HEAD_BYTES = 32 << 10
"""Request line and headers together; more is answered with 400."""

MOST_SMALL_BODY = 16 << 10
"""Of a body that holds a code."""

MOST_RUN_BODY = 4 * MIB
"""Of a request for a run: a build file twice, its secrets, and the parcel's lists."""

LEAST_RATE = 1024.0
"""Bytes a second that a body must bring."""

SLOW_S = 20.0
"""How far a body may lag behind that rate, and so how long it may pause."""

READ_OF_TEAM = 4
"""Bodies of requests for runs that are read of one team at a time; one that trickles
holds up no other team."""

PARSED = 2
"""Bodies whose values are in memory at a time."""

PIECE_BYTES = 256 << 10
"""What is read of a file, or written to one, at a time."""

REVOKED_S = 1.5
"""How long a token counts as valid without asking the store, and how often the store is
asked about requests that have taken as long: what is revoked ends within three times
this."""

STORE_THREADS = 6
FILE_THREADS = 6
RUN_THREADS = 6
"""Calls at a time of the store, of files, and of what begins and ends runs."""

MOST_OPEN = 256
"""Requests that one person may have under way."""

LOGIN_TRIES = 20
LOGIN_REFILL_S = 30.0
"""Wrong codes from one address: so many at once, and one more in this time."""

ALL_LOGIN_TRIES = 600
ALL_LOGIN_REFILL_S = 0.1
"""The same for all addresses together."""

ANOTHER_VALID_S = 600.0
"""How long a code of `rai login --another` is good."""

UPLOADS_AT_ONCE = 2000
UPLOADS_REFILL_S = 2.0
"""New uploads of one team: so many at once, and one more in this time."""

UPLOADS_OF_TEAM = 64
"""Uploads of one team that may be under way."""

STRANGER_LINES = 60
STRANGER_LINE_S = 60.0
"""Lines of the log about requests without a token: of each address so many at once,
and one more in this time."""

MOST_ADDRESSES = 4096
"""Addresses, and teams, that are remembered for these rates."""

LOOK_S, QUIET_LOOK_S = 0.1, 0.25
"""How often a followed run is looked at, and where nothing came for a second."""

LATEST_S = 1.0
"""The least time between two looks at what a run uses, which changes as often."""

WAIT_S = 60.0
"""When to try again where nothing tells when there is room: a full disk or queue."""

MOST_LATEST_BYTES = 4096
LINES_BYTES = 256 << 10
"""The most events in one answer to a follower."""


class TryCounter:
    """A bucket of tries for each key, which fills again with time.

    Of more than MOST_ADDRESSES the one that was used least lately is forgotten.
    """

    def __init__(self, tries: int, refill_s: float) -> None:
        self._tries, self._refill_s = float(tries), refill_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now: float) -> float | None:
        """Take a try; return when there is one again if none is left, else None."""
        left = self._now(key, now)
        if left < 1:
            return now + (1 - left) * self._refill_s
        self._keep(key, left - 1, now)
        return None

    def give_back(self, key: str, now: float) -> None:
        """Undo a try."""
        self._keep(key, min(self._now(key, now) + 1, self._tries), now)

    def _now(self, key: str, now: float) -> float:
        left, at = self._left.get(key, (self._tries, now))
        return min(left + max(now - at, 0) / self._refill_s, self._tries)

    def _keep(self, key: str, left: float, now: float) -> None:
        self._left[key] = left, now
        self._left.move_to_end(key)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)


def network(address: str) -> str:
    """Return what of an address belongs to one client: of IPv6 the first 64 bits."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    return str(found) if found.version == 4 else found.exploded[:19]
