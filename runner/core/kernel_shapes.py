"""What a project says of its layers and kernels, in ``/build/rai-kernels.json``."""

from __future__ import annotations

from msgspec import Struct

FILE = "rai-kernels.json"
"""The file's name in the build folder."""

FORMAT = 1


class NetworkLayer(Struct, frozen=True):
    """One layer of a network: its shapes from the batch on, and its weights' shape.

    ``flops`` are the operations that its definition needs for the whole batch.
    """

    name: str
    kind: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    weights: tuple[int, ...] = ()
    flops: float | None = None


class KernelWork(Struct, frozen=True):
    """What the launches of one kernel have to do.

    ``kernel`` is the function's name, as a profiler prints it or without template
    arguments and parameters. ``grid`` and ``block`` tell launches of different layers
    apart; None stands for any. ``script`` is the program that launches it, ``variant``
    the name of the set of kernels, ``layer`` the layer's name. ``flops`` and ``bytes``
    are those of one launch: the operations that it does, and the least that it moves
    between the chip and its memory. ``accuracy_class`` names the arithmetic, such as
    "fp32", "tf32" or "fp16".
    """

    kernel: str
    script: str = ""
    variant: str = ""
    layer: str = ""
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    flops: float | None = None
    bytes: float | None = None
    accuracy_class: str = ""


class KernelShapes(Struct, frozen=True):
    """The whole file; ``network`` names the network, such as "ece408, 2019fa"."""

    format: int = FORMAT
    network: str = ""
    layers: tuple[NetworkLayer, ...] = ()
    kernels: tuple[KernelWork, ...] = ()
