"""What a worker is told beside the parcel, and what it answers.

A client writes an order, and then that the project is sealed. For a server, and on a
cluster, the order lies in the run's folder. The worker writes one answer.
"""

from __future__ import annotations

import msgspec

from runner.core.ending import Reason
from runner.core.policy import RolePolicy
from runner.core.problem import Problem

SEALED = b"sealed\n"
FOR_SERVER = "--for-server"
"""The option of a worker that a server asks, by one line: a run's id, or FACTS."""

FACTS = "facts"
LONGEST_ASKED = 64
MOST_BYTES = 16 << 20
MOST_PROBLEMS = 1000
"""How many problems an answer has; a build file can be made to have any number."""


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """The folder of the run that a worker takes, and its settings as variables.

    ``spec_text`` is the build file with the values that the parcel masks, ``secrets``
    the values of variables that the parcel only names. ``engines`` are those that the
    client chose, and ``why`` is the reason for the choice; without any the worker
    chooses.

    ``allowed`` is what a server allows whose client sent the project; None for a
    project of this user.
    ``gpus_out`` are GPUs that no run gets, by their UUIDs, and why.
    """

    folder: str = ""
    settings: dict[str, str] = {}
    spec_text: str = ""
    secrets: dict[str, str] = {}
    engines: tuple[str, ...] = ()
    why: str = ""
    allowed: RolePolicy | None = None
    gpus_out: dict[str, str] = {}


class Answer(msgspec.Struct, frozen=True):
    """Whether a worker took the run.

    With a ``reason`` it refused, and there is no run. ``ended`` says that the run ended
    before it began, with a record that tells why.
    """

    problems: tuple[Problem, ...] = ()
    reason: Reason | None = None
    ended: bool = False


def to_line(message: Order | Answer) -> bytes:
    """Return an order or an answer as one JSON line."""
    return msgspec.json.encode(message) + b"\n"


def from_line(line: bytes) -> Order:
    """Parse an order; raise ValueError if it is none."""
    return msgspec.json.decode(line, type=Order)


def answer_from(line: bytes) -> Answer:
    """Parse an answer; raise ValueError if it is none."""
    return msgspec.json.decode(line, type=Answer)
