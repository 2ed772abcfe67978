"""What a project says of its networks and kernels, in ``/build/rai-kernels.json``.

docs/results.md describes the file, and docs/schemas/rai-kernels.json is its
schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from runner.core.errors import Problem

FILE = "rai-kernels.json"
"""The file's name in the build folder."""

FORMAT = 1
GUIDE = "docs/results.md describes the file"
MOST_BYTES = 1 << 20
MOST_NETWORKS = 200
MOST_KERNELS = 5000
MOST_PROBLEMS = 20
"""The most that are told of; more are counted."""

Word = Annotated[str, Meta(max_length=200)]
Words = Annotated[tuple[Word, ...], Meta(max_length=64)]
FunctionName = Annotated[str, Meta(min_length=1, max_length=1024)]
Length = Annotated[int, Meta(ge=1, le=2**40)]
ArrayShape = Annotated[tuple[Length, ...], Meta(max_length=16)]
Size = Annotated[int, Meta(ge=1, le=2**31 - 1)]
GridSize = tuple[Size, Size, Size]
Count = Annotated[float, Meta(gt=0, le=1e30)]
LaunchCount = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class NetworkLayer(Struct, frozen=True):
    """One layer of a network: its shapes from the batch on, and its weights' shape.

    ``kind`` is a word such as "convolution" or "dense". ``flops`` are the operations
    that its definition needs for the whole batch, ``bytes`` the least that it moves
    between the chip and its memory: what it reads and what it writes, each once.
    ``timed`` is whether the program prints an Op Time of it, in the layers' order.
    """

    name: Word
    kind: Word
    input: ArrayShape
    output: ArrayShape
    weights: ArrayShape = ()
    flops: Count | None = None
    bytes: Count | None = None
    timed: bool = False


class LayeredNetwork(Struct, frozen=True):
    """A network as one command ran it.

    ``name`` is such as "ece408, 2019fa". ``script`` is the file of the program that ran
    it, such as "m3.1.py", without its folder, and ``arguments`` what follows it on the
    command line; None stands for any. ``batch_size`` is the number of images.
    """

    name: Word
    script: Word = ""
    arguments: Words | None = None
    batch_size: LaunchCount | None = None
    layers: Annotated[tuple[NetworkLayer, ...], Meta(max_length=1000)] = ()


class KernelWork(Struct, frozen=True):
    """What the launches of one kernel have to do.

    ``kernel`` is the function's name, as a profiler prints it or without template
    arguments and parameters. ``grid``, ``block``, ``script`` and ``arguments`` tell its
    launches apart; None and "" stand for any. ``script`` is the file of the program
    that launches it, without its folder, ``arguments`` what follows it on the command
    line, ``batch_size`` the number of images; ``variant`` is the name of the set of
    kernels, ``layer`` the layer's. ``launches`` is how many such launches there are
    each time that the network is computed.

    ``flops`` and ``bytes`` are those of one launch: the operations that the result
    needs by its definition, and the least that the launch moves between the chip and
    its memory. ``accuracy_class`` names the accuracy, such as "fp32", "tf32" or "half".
    ``unit`` is the arithmetic whose peak rate bounds it: "fp64", "fp32", "tf32" or
    "fp16", the last two on tensor cores; "" for that of the accuracy class.
    ``unit_flops`` are the operations that this unit does, if they are not ``flops``:
    more where one product is made of several, fewer with a cleverer algorithm.
    """

    kernel: FunctionName
    script: Word = ""
    arguments: Words | None = None
    batch_size: LaunchCount | None = None
    variant: Word = ""
    layer: Word = ""
    grid: GridSize | None = None
    block: GridSize | None = None
    launches: LaunchCount = 1
    flops: Count | None = None
    bytes: Count | None = None
    accuracy_class: Word = ""
    unit: Word = ""
    unit_flops: Count | None = None


class KernelShapes(Struct, frozen=True):
    """The whole file; ``format`` is 1."""

    format: int = FORMAT
    networks: Annotated[tuple[LayeredNetwork, ...], Meta(max_length=MOST_NETWORKS)] = ()
    kernels: Annotated[tuple[KernelWork, ...], Meta(max_length=MOST_KERNELS)] = ()


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
        said, hint = f"{FILE} is of format {found}, which there is not", GUIDE
        if found > FORMAT:
            said = f"{FILE} is of format {found}; this version of rai reads format"
            said += f" {FORMAT}"
            hint = "update rai, or write the file in the older format"
        if found != FORMAT:
            return None, (Problem(said, hint=hint),)
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
    told, more = problems[:MOST_PROBLEMS], len(problems) - MOST_PROBLEMS
    if more > 0:
        told.append(Problem(f"{FILE}: {more} more problems"))
    return shapes, tuple(told)


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
