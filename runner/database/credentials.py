"""One-time codes and tokens: made at random, and kept as their SHA-256 only."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from msgspec import Struct

LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"
"""What a code is made of: no 0, O, 1, I or l, which look alike."""

GROUPS = 3
IN_A_GROUP = 5
SECRET_BYTES = 32
LONGEST = 200
"""Characters of a code or token; a longer one is not looked at."""


class Credential(Struct, frozen=True):
    """A token's two parts: its id, which may be seen, and its secret."""

    id: str
    secret: str

    @property
    def token(self) -> str:
        """The token as its owner keeps it."""
        return f"rai_{self.id}_{self.secret}"


def new_code() -> str:
    """Return a new code with 74 random bits, such as k7m2p-9xwqz-4hjtr."""
    return "-".join(
        "".join(secrets.choice(LETTERS) for _ in range(IN_A_GROUP))
        for _ in range(GROUPS)
    )


def code_hash(code: str) -> str | None:
    """Return the hash of a code as somebody typed it; None if it can be no code."""
    if len(code) > LONGEST:
        return None
    letters = "".join(code.lower().split()).replace("-", "")
    if len(letters) != GROUPS * IN_A_GROUP or not set(letters) <= set(LETTERS):
        return None
    return digest(letters)


def new_token() -> Credential:
    """Return a new token."""
    return Credential(secrets.token_hex(6), secrets.token_urlsafe(SECRET_BYTES))


def read(token: str) -> Credential | None:
    """Return the parts of a token; None if it can be none."""
    if len(token) > LONGEST or not token.isascii():
        return None
    rai, _, rest = token.partition("_")
    token_id, _, secret = rest.partition("_")
    return Credential(token_id, secret) if rai == "rai" and token_id else None


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret; it has too many bits to be found from that."""
    return hashlib.sha256(secret.encode()).hexdigest()


def same(secret: str, kept: str) -> bool:
    """Whether a secret has this hash; the time it takes tells nothing of either."""
    return hmac.compare_digest(digest(secret), kept)
