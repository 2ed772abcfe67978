"""Who uses a server: logging in, and what the server says of oneself."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Scope(StrEnum):
    """What a token is good for."""

    RUN = "run"
    STAFF = "staff"


class ServerFacts(Struct, frozen=True):
    """What a server says to everybody: `GET /api/v1/`.

    ``least_client`` is the oldest version of rai that it serves, ``time`` seconds since
    1970. Unknown ``features`` are ignored.
    """

    version: str
    api: int
    least_client: str
    time: float
    features: tuple[str, ...] = ()


class LoginRequest(Struct, frozen=True):
    """`POST /api/v1/login`: a one-time code; ``device`` names the client."""

    code: str
    device: str = ""


class LoginCode(Struct, frozen=True):
    """`POST /api/v1/codes`: a one-time code for another login of who asks for it."""

    code: str
    expires_at: float


class RoleLimits(Struct, frozen=True):
    """What is left to a person's team, and what one run of it may ask for.

    None means that there is no bound. ``resets_at`` is when ``left_today`` grows again.
    """

    at_once: int | None = None
    left_today: int | None = None
    resets_at: float | None = None
    gpu_left_s: float | None = None
    upload_bytes: int | None = None
    disk_bytes: int | None = None
    disk_used: int = 0
    network: bool = True
    own_images: bool = True


class Me(Struct, frozen=True):
    """`GET /api/v1/me`: whose token it is, and what it allows."""

    person: str
    team: str
    role: str
    token_id: str
    scopes: tuple[Scope, ...]
    expires_at: float | None
    limits: RoleLimits = RoleLimits()


class LoginAnswer(Struct, frozen=True):
    """The token, which is shown once, and whose it is."""

    token: str
    me: Me
