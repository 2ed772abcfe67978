"""A finding of `rai doctor`."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Health(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    MISSING = "missing"


class Finding(Struct, frozen=True):
    """A fact about this machine, and advice on it."""

    subject: str
    state: Health
    text: str
    advice: str = ""
