"""What a project says of its networks and kernels, in ``/build/rai-kernels.json``.

docs/kernel-shapes.md describes the file, docs/schemas/rai-kernels.json is its schema,
and ``kernel_shapes_reader`` reads it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

FILE = "rai-kernels.json"
"""The file's name in the build folder."""

FORMAT = 1
MOST_NETWORKS = 200
MOST_KERNELS = 5000

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
