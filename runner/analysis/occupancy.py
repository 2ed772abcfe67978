"""How many warps of a kernel a multiprocessor holds at once, and what limits it.

What a multiprocessor of each compute capability holds.

The numbers are those of the CUDA C++ Programming Guide, "Compute Capabilities", table
"Technical Specifications per Compute Capability", and of the shared memory that each
later section of it names. How registers and shared memory are allotted, and the units
of arithmetic, are those of the tuning guides of each architecture and of CUDA's header
cuda_occupancy.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        return _rounds(self.threads, WARP)


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
    if holder is None or not _possible(demand):
        return None
    fitting = _fitting(holder, demand)
    blocks = min(fitting.values())
    if blocks == 0:
        return None
    warps = blocks * demand.warps
    return Occupancy(
        capability,
        warps,
        holder.warps,
        blocks,
        round(100 * warps / holder.warps, 2),
        tuple(limit for limit, most in fitting.items() if most == blocks),
        tuple(_steps(holder, demand, warps, fitting)),
    )


def _possible(demand: _Demand) -> bool:
    return (
        1 <= demand.threads <= MOST_THREADS
        and 0 <= demand.registers <= MOST_REGISTERS
        and demand.shared_bytes >= 0
    )


def _fitting(holder: Multiprocessor, demand: _Demand) -> dict[OccupancyLimit, int]:
    """Return how many blocks fit by each limit alone; 0 if not even one does."""
    fitting = {
        OccupancyLimit.WARPS: holder.warps // demand.warps,
        OccupancyLimit.BLOCKS: holder.blocks,
    }
    if demand.registers:
        fitting[OccupancyLimit.REGISTERS] = _by_registers(holder, demand)
    taken = demand.shared_bytes + holder.reserved_bytes
    if taken:
        fits = demand.shared_bytes <= holder.block_shared_bytes
        each = _up(taken, holder.shared_unit)
        fitting[OccupancyLimit.SHARED_MEMORY] = holder.shared_bytes // each * fits
    return fitting


def _by_registers(holder: Multiprocessor, demand: _Demand) -> int:
    each = _up(demand.registers * WARP, REGISTER_UNIT)
    # The hardware allots a block's registers in all partitions alike, when it looks
    # whether one block fits at all. On 6.0 it counts as many as on 6.1.
    assumed = each * _up(demand.warps, max(holder.partitions, 4))
    if assumed > holder.block_registers:
        return 0
    warps = holder.registers // holder.partitions // each * holder.partitions
    return warps // demand.warps


def _steps(
    holder: Multiprocessor,
    demand: _Demand,
    warps: int,
    fitting: Mapping[OccupancyLimit, int],
) -> Iterator[OccupancyStep]:
    """Yield the nearest change of what limits alone after which there are more."""
    limits = {limit for limit, most in fitting.items() if most == min(fitting.values())}
    tried: list[Iterator[_Demand]] = []
    if OccupancyLimit.REGISTERS in limits:
        tried.append(_fewer_registers(demand))
    if OccupancyLimit.SHARED_MEMORY in limits:
        tried.append(_less_shared(holder, demand))
    if limits & {OccupancyLimit.WARPS, OccupancyLimit.BLOCKS}:
        tried.append(_other_threads(demand))
    for changes in tried:
        changed = _first(holder, warps, changes)
        if changed is not None:
            blocks = min(_fitting(holder, changed).values())
            held = blocks * changed.warps
            yield OccupancyStep(
                held,
                blocks,
                round(100 * held / holder.warps, 2),
                _if_other(changed.threads, demand.threads),
                _if_other(changed.registers, demand.registers),
                _if_other(changed.shared_bytes, demand.shared_bytes),
            )


def _first(
    holder: Multiprocessor, warps: int, tried: Iterator[_Demand]
) -> _Demand | None:
    """Return the first demand of which more warps fit."""
    for demand in tried:
        if min(_fitting(holder, demand).values()) * demand.warps > warps:
            return demand
    return None


def _fewer_registers(demand: _Demand) -> Iterator[_Demand]:
    for registers in range(demand.registers - 1, FEWEST_REGISTERS - 1, -1):
        yield replace(demand, registers=registers)


def _less_shared(holder: Multiprocessor, demand: _Demand) -> Iterator[_Demand]:
    for blocks in range(2, holder.blocks + 1):
        each = holder.shared_bytes // blocks // holder.shared_unit * holder.shared_unit
        if 0 <= (room := each - holder.reserved_bytes) < demand.shared_bytes:
            yield replace(demand, shared_bytes=room)


def _other_threads(demand: _Demand) -> Iterator[_Demand]:
    for apart in range(1, MOST_THREADS // WARP):
        for warps in (demand.warps - apart, demand.warps + apart):
            if 1 <= warps <= MOST_THREADS // WARP:
                yield replace(demand, threads=WARP * warps)


def _if_other(value: int, before: int) -> int | None:
    return value if value != before else None


def _rounds(number: int, unit: int) -> int:
    return -(-number // unit)


def _up(number: int, unit: int) -> int:
    return unit * _rounds(number, unit)


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
