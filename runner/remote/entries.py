"""Who one is at a server: what a client keeps of each login."""

from __future__ import annotations

from msgspec import Struct


class ProfileEntry(Struct, frozen=True):
    """A server, the token for it, and whose it is.

    ``url`` is as ``wire.addresses.normal`` returns it. ``fingerprint`` is that of the
    only certificate that is accepted, "" where the system's certificates decide.
    """

    url: str
    token: str = ""
    fingerprint: str = ""
    team: str = ""
    person: str = ""

    def __repr__(self) -> str:
        return f"ProfileEntry({self.url!r}, person={self.person!r})"  # and no token


class Logins(Struct, frozen=True):
    """The servers that one is logged in at, and the one that runs go to, "" if none."""

    host: str = ""
    servers: dict[str, ProfileEntry] = {}
