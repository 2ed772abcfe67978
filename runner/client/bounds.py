"""How much a server may send, and how long it may take.

Of one run it may send what the run itself may make, and some more. Pure.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from runner.core import GIB, MIB, Limits, RunRequest
from runner.core.errors import SpecError
from runner.core.work import build_caps

CONNECT_S = 10.0
READ_S = 30.0
"""How long a server may take from a request to the end of its answer's headers."""

SLOW_S = 30.0
LEAST_BYTES = 32 << 10
"""A body brings so many bytes in each SLOW_S, or ends."""

MOST_ANSWERED_BYTES = 16 << 20
"""Of an answer that is no file and no part of a run."""

MOST_PROBLEMS = 20
"""A server's further problems are only counted."""

MOST_TEXT = 2000
"""The most characters that are shown of one text of a server's."""

MOST_EVENTS_BYTES = 8 * GIB
EVENTS_BYTES = 64 * MIB
"""The events of a run that prints nothing."""

EVENT_BYTES = 256
"""More than the line of an Output takes, which has a byte of output at least."""

MEMBER_BYTES = 2048
"""More than the headers and padding of a file take in an archive."""


class MirrorBounds(Struct, frozen=True):
    """The most bytes of each log, and of the archive of the build folder."""

    log_bytes: int
    build_bytes: int

    def of_events(self, log_bytes: int) -> int:
        """Return the most bytes of events beside so many bytes of output."""
        return min(EVENTS_BYTES + EVENT_BYTES * log_bytes, MOST_EVENTS_BYTES)


def of_limits(limits: Limits) -> MirrorBounds:
    """Return the bounds of a run with these limits."""
    log_bytes = limits.output_bytes + limits.output_bytes // 4 + MIB
    caps = build_caps(limits)
    build_bytes = caps.total_bytes + caps.members * MEMBER_BYTES + MIB
    return MirrorBounds(log_bytes, build_bytes)


def of_parcel(parcel: RunRequest | None) -> MirrorBounds:
    """Return the bounds of a sealed run, as its build file says."""
    from runner.spec import buildfile  # what else is here is read by every command

    limits = Limits()
    if parcel is not None:
        with suppress(SpecError):  # a masked value may be wrong as it stands
            limits = buildfile.parse(parcel.spec_text, parcel.spec_file)[0].limits
    return of_limits(limits)
