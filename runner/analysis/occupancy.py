"""How many warps of a kernel a multiprocessor holds at once, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from runner.analysis.multiprocessors import (
    MOST_REGISTERS,
    MOST_THREADS,
    MULTIPROCESSORS,
    REGISTER_UNIT,
    WARP,
    Multiprocessor,
)

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
