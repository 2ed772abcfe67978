"""Read rai-kernels.json: bytes to what is right in it, and problems. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from runner.core.kernel_shapes import (
    FILE,
    FORMAT,
    MOST_KERNELS,
    MOST_NETWORKS,
    KernelShapes,
    KernelWork,
    LayeredNetwork,
)
from runner.core.problem import Problem

MOST_BYTES = 1 << 20
MOST_PROBLEMS = 20
"""The most that are told of; more are counted."""

GUIDE = "docs/kernel-shapes.md describes the file"

Entry = TypeVar("Entry", LayeredNetwork, KernelWork)


class _Envelope(Struct):
    """The file, with entries that are not looked into yet."""

    format: int = FORMAT
    networks: list[Raw] = field(default_factory=list)
    kernels: list[Raw] = field(default_factory=list)


class _FormatOnly(Struct):
    """As much of the file as every format has."""

    format: int = FORMAT


def read(data: bytes) -> tuple[KernelShapes | None, tuple[Problem, ...]]:
    """Return the entries that are right, and a problem for each other one.

    None stands for a file of which nothing can be used.
    """
    if len(data) > MOST_BYTES:
        said = f"{FILE} has {len(data)} bytes; at most {MOST_BYTES} are read"
        return None, (Problem(said, hint="write one entry for each kind of launch"),)
    try:
        found = msgspec.json.decode(data, type=_FormatOnly).format
        if found != FORMAT:
            return None, (_other_format(found),)
        whole = msgspec.json.decode(data, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, (_problem(error, ""),)
    problems: list[Problem] = []
    networks = _entries(whole.networks, LayeredNetwork, "networks", problems)
    kernels = _entries(whole.kernels, KernelWork, "kernels", problems)
    shapes = KernelShapes(FORMAT, networks[:MOST_NETWORKS], kernels[:MOST_KERNELS])
    for name, entries, most in (
        ("networks", networks, MOST_NETWORKS),
        ("kernels", kernels, MOST_KERNELS),
    ):
        if len(entries) > most:
            said = f"{FILE}: {name} has {len(entries)} entries; the first {most} count"
            problems.append(Problem(said, hint=GUIDE))
    return shapes, _few(problems)


def _entries(
    raw: Sequence[Raw], kind: type[Entry], name: str, problems: list[Problem]
) -> tuple[Entry, ...]:
    """Return the entries that are right; add a problem for each of the others."""
    decoder = msgspec.json.Decoder(kind)
    found = []
    for at, text in enumerate(raw):
        try:
            found.append(decoder.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problems.append(_problem(error, f"{name}[{at}]"))
    return tuple(found)


def _other_format(found: int) -> Problem:
    if found > FORMAT:
        return Problem(
            f"{FILE} is of format {found}; this version of rai reads format {FORMAT}",
            hint="update rai, or write the file in the older format",
        )
    return Problem(f"{FILE} is of format {found}, which there is not", hint=GUIDE)


def _problem(error: Exception, entry: str) -> Problem:
    """Return what msgspec says, with the path within the file."""
    if isinstance(error, RecursionError):
        return Problem(f"{FILE}: {entry or 'the file'} is nested too deeply")
    said, _, path = str(error).partition(" - at `$")
    path = f"{entry}{path.rstrip('`')}".lstrip(".")
    where = f"{FILE}: {path}" if path else FILE
    if not said.startswith("JSON"):
        said = f"{said[:1].lower()}{said[1:]}"
    return Problem(f"{where}: {said}", hint=GUIDE)


def _few(problems: list[Problem]) -> tuple[Problem, ...]:
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return tuple(problems)
    return (*problems[:MOST_PROBLEMS], Problem(f"{FILE}: {more} more problems"))
