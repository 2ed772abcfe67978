"""How many warps of a kernel a multiprocessor holds at once, and what limits it.

What a multiprocessor of each compute capability holds.

The numbers are those of the CUDA C++ Programming Guide, "Compute Capabilities", table
"Technical Specifications per Compute Capability", and of the shared memory that each
later section of it names. How registers and shared memory are allotted, and the units
of arithmetic, are those of the tuning guides of each architecture and of CUDA's header
cuda_occupancy.h.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

FEWEST_REGISTERS = 16
"""Of a thread; with fewer no compiler would be asked for."""


class OccupancyLimit(StrEnum):
    """What keeps further blocks off a multiprocessor."""

    WARPS = "warps"
    BLOCKS = "blocks"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared memory"


class OccupancyStep(Struct, frozen=True):
    """The nearest change of a kernel that lets a multiprocessor hold more warps.

    ``threads`` are of a block, ``registers`` of a thread, ``shared_bytes`` of a block:
    the only one that differs from the kernel's is set.
    """

    warps: int
    blocks: int
    percent: float
    threads: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None


class Occupancy(Struct, frozen=True):
    """The theoretical occupancy: warps on a multiprocessor, of the most that it holds.

    ``limits`` is what would have to change for one more block, all of it at once;
    ``steps`` are changes of one of them alone that would help.
    """

    capability: str
    warps: int
    most_warps: int
    blocks: int
    percent: float
    limits: tuple[OccupancyLimit, ...]
    steps: tuple[OccupancyStep, ...] = ()


class _Demand(Struct, frozen=True):
    """What one block needs."""

    threads: int
    registers: int
    shared_bytes: int

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)


@lru_cache(maxsize=4096)
def occupancy(
    capability: str, threads: int, registers: int, shared_bytes: int
) -> Occupancy | None:
    """Return the theoretical occupancy of a kernel, as CUDA's own calculator has it.

    ``threads`` are of a block, ``registers`` of a thread, ``shared_bytes`` of a block,
    static and dynamic. None if the capability is not known, or the kernel cannot run.
    """
    holder = MULTIPROCESSORS.get(capability)
    demand = _Demand(threads, registers, shared_bytes)
    possible = 1 <= threads <= MOST_THREADS and 0 <= registers <= MOST_REGISTERS
    if holder is None or not possible or shared_bytes < 0:
        return None
    fitting = _fitting(holder, demand)
    blocks = min(fitting.values())
    if blocks == 0:
        return None
    warps = blocks * demand.warps
    limits = tuple(limit for limit, most in fitting.items() if most == blocks)
    percent = round(100 * warps / holder.warps, 2)
    steps = tuple(_steps(holder, demand, warps, limits))
    return Occupancy(capability, warps, holder.warps, blocks, percent, limits, steps)


def _fitting(holder: Multiprocessor, demand: _Demand) -> dict[OccupancyLimit, int]:
    """Return how many blocks fit by each limit alone; 0 if not even one does."""
    fitting = {
        OccupancyLimit.WARPS: holder.warps // demand.warps,
        OccupancyLimit.BLOCKS: holder.blocks,
    }
    if demand.registers:
        each = _up(demand.registers * WARP, REGISTER_UNIT)
        # The hardware allots a block's registers in all partitions alike, when it looks
        # whether one block fits at all. On 6.0 it counts as many as on 6.1.
        assumed = each * _up(demand.warps, max(holder.partitions, 4))
        warps = holder.registers // holder.partitions // each * holder.partitions
        fits = assumed <= holder.block_registers
        fitting[OccupancyLimit.REGISTERS] = warps // demand.warps * fits
    taken = demand.shared_bytes + holder.reserved_bytes
    if taken:
        fits = demand.shared_bytes <= holder.block_shared_bytes
        each = _up(taken, holder.shared_unit)
        fitting[OccupancyLimit.SHARED_MEMORY] = holder.shared_bytes // each * fits
    return fitting


def _steps(
    holder: Multiprocessor,
    demand: _Demand,
    warps: int,
    limits: Collection[OccupancyLimit],
) -> Iterator[OccupancyStep]:
    """Yield the nearest change of what limits alone after which there are more."""
    tried: list[Iterable[dict[str, int]]] = []
    if OccupancyLimit.REGISTERS in limits:
        fewer = range(demand.registers - 1, FEWEST_REGISTERS - 1, -1)
        tried.append({"registers": registers} for registers in fewer)
    if OccupancyLimit.SHARED_MEMORY in limits:
        tried.append(_less_shared(holder, demand))
    if OccupancyLimit.WARPS in limits or OccupancyLimit.BLOCKS in limits:
        tried.append(
            {"threads": WARP * other}
            for apart in range(1, MOST_THREADS // WARP)
            for other in (demand.warps - apart, demand.warps + apart)
            if 1 <= other <= MOST_THREADS // WARP
        )
    for changes in tried:
        for change in changes:
            changed = replace(demand, **change)
            blocks = min(_fitting(holder, changed).values())
            if (held := blocks * changed.warps) > warps:
                percent = round(100 * held / holder.warps, 2)
                yield OccupancyStep(held, blocks, percent, **change)
                break


def _less_shared(holder: Multiprocessor, demand: _Demand) -> Iterator[dict[str, int]]:
    for blocks in range(2, holder.blocks + 1):
        each = holder.shared_bytes // blocks // holder.shared_unit * holder.shared_unit
        if 0 <= (room := each - holder.reserved_bytes) < demand.shared_bytes:
            yield {"shared_bytes": room}


def _up(number: int, unit: int) -> int:
    return unit * -(-number // unit)


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


def _early(shared: int, block_shared: int = 48, **more: int) -> Multiprocessor:
    """Return one before capability 8.0, where CUDA has no shared memory of its own.

    Its shared memory is in KiB.
    """
    usual = {"warps": 64, "blocks": 32, "reserved_bytes": 0, "shared_unit": 256}
    sizes = {"shared_bytes": shared * KIB, "block_shared_bytes": block_shared * KIB}
    return Multiprocessor(**usual | sizes | more)


_LARGE = Multiprocessor(64, 32, 228 * KIB, 227 * KIB)
_SMALL = Multiprocessor(48, 24, 100 * KIB, 99 * KIB)

MULTIPROCESSORS = {
    "3.5": _early(48, blocks=16, fp32_lanes=192),
    "3.7": _early(112, blocks=16, fp32_lanes=192, registers=128 * KIB),
    "5.0": _early(64),
    "5.2": _early(96),
    "5.3": _early(64, block_registers=32 * KIB),
    "6.0": _early(64, fp32_lanes=64, partitions=2),
    "6.1": _early(96),
    "6.2": _early(64, block_registers=32 * KIB),
    "7.0": _early(96, 96, fp32_lanes=64),
    "7.2": _early(96, 96, fp32_lanes=64),
    "7.5": _early(64, 64, warps=32, blocks=16, fp32_lanes=64),
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
