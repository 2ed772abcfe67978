"""Run nvidia-smi, and read what it prints.

``QUERY`` prints a line of comma-separated values for each GPU, in the order of FIELDS
(``nvidia-smi --help-query-gpu``), ``PROCESSES`` a line for each process. ``parse``
takes them joined.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from runner import process
from runner.core import MIB, Gpu, GpuProcess, GpuState
from runner.core.errors import EngineError
from runner.gpu.nvidia import installed

FIELDS = (
    "index",
    "uuid",
    "driver_version",
    "mig.mode.current",
    "memory.total",
    "compute_cap",
    "pci.bus_id",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "name",
)
FORM = "--format=csv,noheader,nounits"
QUERY = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", FORM)
PROCESSES = (
    "nvidia-smi",
    "--query-compute-apps=gpu_uuid,pid,used_memory,process_name",
    FORM,
)

_PROCESS = re.compile(r"((?:GPU|MIG)-\S+), (\d+), ([^,]+), (.+)")
_PROBLEM = re.compile(r"fail|error|not a valid|no devices|unable|lost", re.IGNORECASE)
_GONE = re.compile(r"lost|unknown error|err!|requires reset", re.IGNORECASE)

SMI = "nvidia-smi"

SMI_S = 20.0


class SmiReport(Struct, frozen=True):
    """What nvidia-smi printed.

    ``buses`` are pairs of UUID and PCI address; ``sliced`` are the names of the GPUs in
    MIG mode, which ``gpus`` lacks. ``problem`` is its error message if it failed.
    """

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    states: tuple[GpuState, ...] = ()
    buses: tuple[tuple[str, str], ...] = ()
    sliced: tuple[str, ...] = ()
    problem: str = ""


Row = dict[str, str]


def parse(text: str, *, processes: bool = False) -> SmiReport:
    """Parse the output of QUERY, and of PROCESSES if ``processes``."""
    lines = text.splitlines()
    rows = [row for line in lines if (row := _row(line))]
    cards = {row["uuid"]: _gpu(row) for row in rows}
    migs = {row["uuid"] for row in rows if row["mig.mode.current"] == "Enabled"}
    gpus = [gpu for uuid, gpu in cards.items() if uuid not in migs]
    busy = _processes(lines) if processes else None
    errors = (line.strip() for line in lines if _PROBLEM.search(line))
    return SmiReport(
        driver=rows[0]["driver_version"] if rows else "",
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
        states=tuple(_state(row, busy) for row in rows),
        buses=tuple((row["uuid"], row["pci.bus_id"]) for row in rows),
        sliced=tuple(cards[uuid].shown for uuid in cards if uuid in migs),
        problem="" if rows else next(errors, ""),
    )


def _row(line: str) -> Row | None:
    values = [value.strip() for value in line.split(",", len(FIELDS) - 1)]
    row = dict(zip(FIELDS, values, strict=False))
    whole = len(values) == len(FIELDS) and row["index"].isdecimal()
    return row if whole and row["uuid"].startswith("GPU-") else None


def _gpu(row: Row) -> Gpu:
    memory = _number(row["memory.total"])
    return Gpu(
        uuid=row["uuid"],
        name=row["name"],
        index=int(row["index"]),
        memory_bytes=round(memory * MIB) if memory else 0,
        compute=row["compute_cap"] if _number(row["compute_cap"]) else "",
    )


def _processes(lines: list[str]) -> dict[str, tuple[GpuProcess, ...]]:
    found: dict[str, tuple[GpuProcess, ...]] = {}
    for match in filter(None, map(_PROCESS.fullmatch, lines)):
        uuid, pid, memory, name = match.groups()
        used = _number(memory)
        taken = None if used is None else round(used * MIB)
        one = GpuProcess(int(pid), name.rpartition("/")[2], taken)
        found[uuid] = (*found.get(uuid, ()), one)
    return found


def _state(row: Row, busy: dict[str, tuple[GpuProcess, ...]] | None) -> GpuState:
    gone = (value.strip("[]") for value in row.values() if _GONE.search(value))
    if trouble := next(gone, ""):
        return GpuState(row["uuid"], problem=f"it does not answer: {trouble}")
    return GpuState(
        uuid=row["uuid"],
        sm_clock_mhz=_whole(row["clocks.sm"]),
        sm_clock_most_mhz=_whole(row["clocks.max.sm"]),
        memory_clock_mhz=_whole(row["clocks.mem"]),
        temperature_c=_whole(row["temperature.gpu"]),
        power_w=_number(row["power.draw"]),
        processes=None if busy is None else busy.get(row["uuid"], ()),
    )


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else None


def _whole(value: str) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def run_smi(root: Path) -> SmiReport:
    """Run nvidia-smi; ``problem`` says why it failed."""
    program = installed.program(root, SMI)
    if not program:
        return SmiReport(problem=f"{SMI} is not found")
    output = b""
    for words in (QUERY, PROCESSES):
        try:
            argv = [installed.under(root, program), *words[1:]]
            done = process.run(argv, timeout_s=SMI_S)
        except EngineError as error:
            return SmiReport(problem=str(error))
        output += done.stdout + done.stderr
    return parse(output.decode(errors="replace"), processes=True)
