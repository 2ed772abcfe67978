"""How much a server takes from its clients, in bytes, seconds and numbers.

Headers are bounded by h11: see ``serving``.
"""

from __future__ import annotations

from runner.core import MIB

MOST_SMALL_BODY = 16 << 10
"""Of a body that holds a code, or the checksum of an upload."""

MOST_RUN_BODY = 4 * MIB
"""Of a request for a run: a build file twice, its secrets, and the parcel's lists."""

SLOW_S = 30.0
"""How long a body may pause, and after how long its mean rate counts."""

LEAST_RATE = 1024.0
"""Bytes a second that a body must bring on average."""

DRAIN_BYTES = 1 * MIB
DRAIN_S = 2.0
"""What is read of the body of a refused request, so that the answer arrives."""

SEND_S = 60.0
"""How long a client may take for a piece of an answer that is a stream."""

PIECE_BYTES = 256 << 10
"""What is read of a file, or written to one, at a time."""

REVOKED_S = 2.0
"""How long a token counts as valid without asking the store."""

MOST_OPEN = 256
"""Requests that one person may have under way."""

LOGIN_TRIES = 20
LOGIN_REFILL_S = 30.0
"""Wrong codes from one address: so many at once, and one more in this time."""

ALL_LOGIN_TRIES = 600
ALL_LOGIN_REFILL_S = 0.1
"""The same for all addresses together."""

UPLOADS_AT_ONCE = 2000
UPLOADS_REFILL_S = 2.0
"""New uploads of one team: so many at once, and one more in this time."""

MOST_ADDRESSES = 4096
"""Addresses, and teams, that are remembered for these rates."""

LOOK_S = 0.1
QUIET_LOOK_S = 0.25
"""How often the files of a followed run are looked at, and where nothing comes."""

LATEST_S = 0.5
"""The least time between two values of what a run uses."""

MOST_LATEST_BYTES = 4096
STEP_BYTES = 128 << 10
"""About how much of a followed run is read and sent at once."""

KEPT_BYTES = 4 * MIB
"""What is kept of a followed run for its other followers."""
