"""What the doctor finds: one thing about this machine, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Health(StrEnum):
    """How a finding stands."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


class Finding(Struct, frozen=True):
    """One thing about this machine, and what to do about it."""

    subject: str
    state: Health
    text: str
    advice: str = ""
