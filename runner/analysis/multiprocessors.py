"""What a multiprocessor of each compute capability holds.

The numbers are those of the CUDA C++ Programming Guide, "Compute Capabilities", table
"Technical Specifications per Compute Capability", and of the shared memory that each
later section of it names. How registers and shared memory are allotted, and the units
of arithmetic, are those of the tuning guides of each architecture and of CUDA's header
cuda_occupancy.h.
"""

from __future__ import annotations

from msgspec import Struct

KIB = 1024
WARP = 32
"""Threads."""

MOST_THREADS = 1024
"""Threads of a block."""

MOST_REGISTERS = 255
"""Registers of a thread."""

REGISTER_UNIT = 256
"""Registers are allotted to each warp in units of so many."""


class Multiprocessor(Struct, frozen=True):
    """The limits of one multiprocessor.

    ``reserved_bytes`` of shared memory are CUDA's own in each block; a block gets its
    shared memory in units of ``shared_unit`` bytes. Registers lie in ``partitions``,
    and a warp's in one of them. ``fp32_lanes`` is how many multiply-adds in fp32 it
    starts in each cycle.
    """

    warps: int
    blocks: int
    shared_bytes: int
    block_shared_bytes: int
    fp32_lanes: int = 128
    reserved_bytes: int = 1 * KIB
    shared_unit: int = 128
    registers: int = 64 * KIB
    block_registers: int = 64 * KIB
    partitions: int = 4


def _early(
    shared: int,
    block_shared: int = 48,
    *,
    warps: int = 64,
    blocks: int = 32,
    lanes: int = 128,
    registers: int = 64,
    block_registers: int = 64,
    partitions: int = 4,
) -> Multiprocessor:
    """Return one before capability 8.0, where CUDA has no shared memory of its own."""
    return Multiprocessor(
        warps,
        blocks,
        shared * KIB,
        block_shared * KIB,
        lanes,
        reserved_bytes=0,
        shared_unit=256,
        registers=registers * KIB,
        block_registers=block_registers * KIB,
        partitions=partitions,
    )


_LARGE = Multiprocessor(64, 32, 228 * KIB, 227 * KIB)
_SMALL = Multiprocessor(48, 24, 100 * KIB, 99 * KIB)

MULTIPROCESSORS = {
    "3.5": _early(48, blocks=16, lanes=192),
    "3.7": _early(112, blocks=16, lanes=192, registers=128),
    "5.0": _early(64),
    "5.2": _early(96),
    "5.3": _early(64, block_registers=32),
    "6.0": _early(64, lanes=64, partitions=2),
    "6.1": _early(96),
    "6.2": _early(64, block_registers=32),
    "7.0": _early(96, 96, lanes=64),
    "7.2": _early(96, 96, lanes=64),
    "7.5": _early(64, 64, warps=32, blocks=16, lanes=64),
    "8.0": Multiprocessor(64, 32, 164 * KIB, 163 * KIB, 64),
    "8.6": Multiprocessor(48, 16, 100 * KIB, 99 * KIB),
    "8.7": Multiprocessor(48, 16, 164 * KIB, 163 * KIB),
    "8.9": _SMALL,
    "9.0": _LARGE,
    "10.0": _LARGE,
    "10.3": _LARGE,
    "11.0": Multiprocessor(48, 24, 228 * KIB, 227 * KIB),
    "12.0": _SMALL,
    "12.1": _SMALL,
}
"""By compute capability."""
