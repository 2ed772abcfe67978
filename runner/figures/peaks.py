"""What a GPU can do at most, and how many warps of a kernel it holds at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from runner.core import GpuUse
from runner.core.measurement import MeasuredRates

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

MEMORY = "memory"
"""The name of the bound by the GPU's memory; the others are named by their unit."""

UNITS = {
    "fp64": "fp64",
    "fp32": "fp32",
    "tf32": "tf32",
    "fp16": "fp16",
    "half": "fp16",
    "bf16": "fp16",
}
"""The unit that does the arithmetic of each accuracy class."""


class KnownGpu(Struct, frozen=True):
    """What is known of a GPU besides what a trace says.

    ``name`` is the driver's; ``measured`` are rates that this GPU was seen to reach.
    """

    name: str
    capability: str = ""
    multiprocessors: int | None = None
    sm_clock_most_mhz: float | None = None
    measured: MeasuredRates | None = None


class GpuBounds(Struct, frozen=True):
    """The most that a GPU does in a second; None for what is not known.

    ``fp64`` and ``fp32`` are of ordinary cores, ``tf32`` and ``fp16`` of tensor cores
    without sparsity, which add up in fp32. ``sources`` says where the rates are from.
    """

    gpu: str
    bytes_per_s: float | None = None
    fp64_flops_per_s: float | None = None
    fp32_flops_per_s: float | None = None
    tf32_flops_per_s: float | None = None
    fp16_flops_per_s: float | None = None
    sources: tuple[str, ...] = ()

    def flops_per_s(self, unit: str) -> float | None:
        """Return the rate of a unit or accuracy class; None if it is not known."""
        rate: float | None = getattr(self, f"{UNITS.get(unit)}_flops_per_s", None)
        return rate


def known_gpus(
    use: GpuUse | None, measured: MeasuredRates | None = None
) -> tuple[KnownGpu, ...]:
    """Return what a run's record says of its GPUs, and what was measured on them."""
    if use is None:
        return ()
    clocks = {
        state.uuid: state.sm_clock_most_mhz for state in (*use.before, *use.after)
    }
    return tuple(
        KnownGpu(gpu.name, gpu.compute, None, clocks.get(gpu.uuid), measured)
        for gpu in use.gpus
    )


def bounds(gpu: KnownGpu) -> GpuBounds | None:
    """Return what is known of a GPU's rates; None if none is.

    A data sheet goes before what the clock gives. A copy that was measured in the run
    goes before the data sheet's bandwidth, which no program reaches.
    """
    found = PEAKS.get(plain(gpu.name))
    found = replace(found, gpu=gpu.name) if found else _by_clock(gpu)
    if gpu.measured is None:
        return found
    found = found or GpuBounds(gpu.name)
    copied = gpu.measured.copied_bytes_per_s or found.bytes_per_s
    sources = ("memory: a copy measured in this run", *found.sources)
    return replace(found, bytes_per_s=copied, sources=sources)


def plain(name: str) -> str:
    """Return a name without the words that drivers put before it or leave out."""
    words = name.casefold().replace("-", " ").split()
    return " ".join(w for w in words if w not in {"nvidia", "tesla", "geforce"})


def _tera(value: float | None) -> float | None:
    return None if value is None else value * 1e12


def _by_clock(gpu: KnownGpu) -> GpuBounds | None:
    """Return the fp32 rate of so many multiprocessors at the highest clock."""
    holder = MULTIPROCESSORS.get(gpu.capability)
    if holder is None or not gpu.multiprocessors or not gpu.sm_clock_most_mhz:
        return None
    lanes = gpu.multiprocessors * holder.fp32_lanes
    rate = 2 * lanes * gpu.sm_clock_most_mhz * 1e6
    source = (
        f"fp32: {gpu.multiprocessors} multiprocessors, {holder.fp32_lanes} "
        f"multiply-adds each at {gpu.sm_clock_most_mhz:g} MHz"
    )
    return GpuBounds(gpu.name, fp32_flops_per_s=rate, sources=(source,))


_Row = tuple[str, float, float, float | None, float | None, float | None]

# The numbers of the K80 are by half: its sheet's are of both GPUs of a card.
_PEAKS: dict[str, tuple[_Row, ...]] = {
    "NVIDIA's data sheet of the DGX B200": (("B200", 8000, 75, 37, 1125, 2250),),
    "NVIDIA's data sheet of the GB200 NVL72": (("GB200", 8000, 80, 40, 1250, 2500),),
    "NVIDIA's data sheet of the H200": (
        ("H200", 4800, 66.9, 33.5, 494.7, 989.4),
        ("H200 NVL", 4800, 60, 30, 417.5, 835.5),
    ),
    "NVIDIA's data sheet of the GH200": (
        ("GH200 480GB", 4000, 66.9, 33.5, 494.7, 989.4),
        ("GH200 144G HBM3e", 4900, 66.9, 33.5, 494.7, 989.4),
    ),
    "NVIDIA's data sheet of the H100": (
        ("H100 80GB HBM3", 3350, 66.9, 33.5, 494.7, 989.4),
        ("H100 PCIe", 2000, 51.2, 25.6, 378, 756),
        ("H100 NVL", 3900, 60, 30, 417.5, 835.5),
    ),
    "NVIDIA's data sheet of the A100": (
        ("A100-SXM4-40GB", 1555, 19.5, 9.7, 156, 312),
        ("A100-PCIE-40GB", 1555, 19.5, 9.7, 156, 312),
        ("A100-SXM4-80GB", 2039, 19.5, 9.7, 156, 312),
        ("A100 80GB PCIe", 1935, 19.5, 9.7, 156, 312),
    ),
    "NVIDIA's data sheet of the A30": (("A30", 933, 10.3, 5.2, 82, 165),),
    "NVIDIA's data sheet of the A40": (("A40", 696, 37.4, None, 74.8, 149.7),),
    "NVIDIA's data sheet of the A10": (("A10", 600, 31.2, None, 62.5, 125),),
    "NVIDIA's data sheet of the A2": (("A2", 200, 4.5, None, 9, 18),),
    "NVIDIA's data sheet of the L4": (("L4", 300, 30.3, None, 60, 121),),
    "NVIDIA's data sheet of the L40": (("L40", 864, 90.5, None, 90.5, 181),),
    "NVIDIA's data sheet of the L40S": (("L40S", 864, 91.6, None, 183, 362),),
    "NVIDIA's data sheet of the V100": (
        ("V100-SXM2-16GB", 900, 15.7, 7.8, None, 125),
        ("V100-SXM2-32GB", 900, 15.7, 7.8, None, 125),
        ("V100-PCIE-16GB", 900, 14, 7, None, 112),
        ("V100-PCIE-32GB", 900, 14, 7, None, 112),
        ("V100S-PCIE-32GB", 1134, 16.4, 8.2, None, 130),
    ),
    "NVIDIA's data sheet of the T4": (("T4", 320, 8.1, None, None, 65),),
    "NVIDIA's data sheet of the P100": (
        ("P100-SXM2-16GB", 732, 10.6, 5.3, None, None),
        ("P100-PCIE-16GB", 732, 9.3, 4.7, None, None),
        ("P100-PCIE-12GB", 549, 9.3, 4.7, None, None),
    ),
    "NVIDIA's data sheet of the P40": (("P40", 346, 12, None, None, None),),
    "NVIDIA's data sheet of the P4": (("P4", 192, 5.5, None, None, None),),
    "NVIDIA's data sheet of the K80, by half": (("K80", 240, 4.37, 1.46, None, None),),
    "NVIDIA's white paper on the architecture RTX Blackwell": (
        ("RTX 5090", 1792, 104.8, None, 104.8, 209.5),
        ("RTX 5080", 960, 56.3, None, 56.3, 112.6),
        ("RTX 5070 Ti", 896, 43.9, None, 43.9, 87.9),
        ("RTX 5070", 672, 30.9, None, 30.9, 61.7),
        ("RTX 5060 Ti", 448, 23.7, None, None, None),
        ("RTX 5060", 448, 19.2, None, None, None),
    ),
    "NVIDIA's white paper on the architecture Ada": (
        ("RTX 4090", 1008, 82.6, None, 82.6, 165.2),
        ("RTX 4080 SUPER", 736, 52.2, None, 52.2, 104.4),
        ("RTX 4080", 716.8, 48.7, None, 48.7, 97.5),
        ("RTX 4070 Ti SUPER", 672, 44.1, None, 44.1, 88.2),
        ("RTX 4070 Ti", 504, 40.1, None, 40.1, 80.2),
        ("RTX 4070 SUPER", 504, 35.5, None, 35.5, 71),
        ("RTX 4070", 504, 29.1, None, 29.1, 58.3),
        ("RTX 4060 Ti", 288, 22.1, None, 22.1, 44.1),
        ("RTX 4060", 272, 15.1, None, 15.1, 30.2),
        ("RTX 6000 Ada Generation", 960, 91.1, None, 182.1, 364.2),
    ),
    "NVIDIA's white paper on the architecture Ampere GA102": (
        ("RTX 3090 Ti", 1008, 40, None, 40, 80),
        ("RTX 3090", 936, 35.6, None, 35.6, 71),
        ("RTX 3080 Ti", 912, 34.1, None, 34.1, 68.2),
        ("RTX 3080", 760, 29.8, None, 29.8, 59.5),
        ("RTX 3070 Ti", 608, 21.7, None, 21.7, 43.5),
        ("RTX 3070", 448, 20.3, None, 20.3, 40.6),
        ("RTX 3060 Ti", 448, 16.2, None, 16.2, 32.4),
        ("RTX 3060", 360, 12.7, None, 12.7, 25.5),
        ("RTX 3050", 224, 9.1, None, 9.1, 18.2),
        ("RTX A6000", 768, 38.7, None, 77.4, 154.8),
    ),
    "NVIDIA's white paper on the architecture Turing": (
        ("TITAN RTX", 672, 16.3, None, None, 130.5),
        ("RTX 2080 Ti", 616, 13.4, None, None, 53.8),
        ("RTX 2080 SUPER", 496, 11.2, None, None, 44.6),
        ("RTX 2080", 448, 10.1, None, None, 40.3),
        ("RTX 2070 SUPER", 448, 9.1, None, None, 36.3),
        ("RTX 2070", 448, 7.5, None, None, 29.9),
        ("RTX 2060 SUPER", 448, 7.2, None, None, 28.7),
        ("RTX 2060", 336, 6.5, None, None, 25.8),
    ),
    "NVIDIA's page of the TITAN V": (("TITAN V", 652.8, 14.9, 7.45, None, 110),),
    "NVIDIA's pages of the GeForce 10 series": (
        ("GTX 1080 Ti", 484, 11.3, None, None, None),
        ("GTX 1080", 320, 8.9, None, None, None),
        ("GTX 1070", 256, 6.5, None, None, None),
    ),
}
"""By source: name, GB/s, TFLOP/s of fp32, fp64, tf32, fp16."""

PEAKS = {
    plain(name): GpuBounds(
        name,
        memory * 1e9,
        _tera(fp64),
        _tera(fp32),
        _tera(tf32),
        _tera(fp16),
        (source,),
    )
    for source, rows in _PEAKS.items()
    for name, memory, fp32, fp64, tf32, fp16 in rows
}
"""The rates of each GPU at its boost clock, by the driver's name of it.

The tensor cores' are without sparsity, and adding up in fp32.
"""
