"""What a client writes to its worker: an order, and then that the project is sealed."""

from __future__ import annotations

import msgspec

SEALED = b"sealed\n"
MOST_BYTES = 16 << 20


class Order(msgspec.Struct, frozen=True):
    """The folder of the run that a worker takes, and its settings as variables.

    ``spec_text`` is the build file with the values that the parcel masks, ``secrets``
    the values of variables that the parcel only names.
    """

    folder: str
    settings: dict[str, str]
    spec_text: str = ""
    secrets: dict[str, str] = {}


def to_line(order: Order) -> bytes:
    """Return the order as one JSON line."""
    return msgspec.json.encode(order) + b"\n"


def from_line(line: bytes) -> Order:
    """Parse an order; raise ValueError if it is none."""
    return msgspec.json.decode(line, type=Order)
