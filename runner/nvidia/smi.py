"""nvidia-smi's answers as text, and what they say.

``QUERY`` gives one line of comma-separated values a GPU, in the order of FIELDS
(``nvidia-smi --help-query-gpu``), ``LIST`` one line a GPU and below it one a MIG slice.
Both may be given to ``parse`` in one text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from runner.model import MIB, Gpu, GpuState
from runner.model.noun import noun

FIELDS = (
    "index",
    "uuid",
    "driver_version",
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
QUERY = (
    "nvidia-smi",
    f"--query-gpu={','.join(FIELDS)}",
    "--format=csv,noheader,nounits",
)
LIST = ("nvidia-smi", "-L")


@noun
class Answer:
    """What nvidia-smi told. ``buses`` are the GPUs' PCI addresses by their UUID.

    ``slices`` are the ordinals of MIG slices on their GPU, by their UUID. ``problem``
    is what it said where it could not serve.
    """

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    states: tuple[GpuState, ...] = ()
    buses: tuple[tuple[str, str], ...] = ()
    problem: str = ""


_SLICE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")
_WHOLE = re.compile(r"GPU (\d+): (.+) \(UUID: (GPU-[^)]+)\)")
_PROBLEM = re.compile(r"fail|error|not valid|no devices|unable|lost", re.IGNORECASE)


def parse(text: str) -> Answer:
    """Read what QUERY, or QUERY and LIST, printed; a GPU in MIG mode as its slices."""
    rows = [row for line in text.splitlines() if (row := _row(line))]
    wholes = {row["uuid"]: _gpu(row) for row in rows}
    slices = _slices(text, wholes)
    parents = {gpu.parent for gpu in slices}
    gpus = [g for g in wholes.values() if g.uuid not in parents] + slices
    said = (line.strip() for line in text.splitlines() if _PROBLEM.search(line))
    return Answer(
        driver=rows[0]["driver_version"] if rows else "",
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
        states=tuple(_state(row) for row in rows),
        buses=tuple((row["uuid"], row["pci.bus_id"]) for row in rows),
        problem="" if rows else next(said, ""),
    )


def _row(line: str) -> dict[str, str] | None:
    values = [value.strip() for value in line.split(",", len(FIELDS) - 1)]
    row = dict(zip(FIELDS, values, strict=False))
    whole = len(values) == len(FIELDS) and row["index"].isdigit()
    return row if whole and row["uuid"].startswith("GPU-") else None


def _gpu(row: dict[str, str]) -> Gpu:
    memory = _number(row["memory.total"])
    return Gpu(
        uuid=row["uuid"],
        name=row["name"],
        index=int(row["index"]),
        memory_bytes=round(memory * MIB) if memory else 0,
        compute=row["compute_cap"] if _number(row["compute_cap"]) else "",
    )


def _slices(text: str, wholes: dict[str, Gpu]) -> list[Gpu]:
    found: list[Gpu] = []
    parent: Gpu | None = None
    for line in text.splitlines():
        if whole := _WHOLE.match(line):
            index, name, uuid = whole.groups()
            parent = wholes.get(uuid, Gpu(uuid, name, int(index)))
        elif parent and (part := _SLICE.match(line)):
            profile, _, uuid = part.groups()
            # Its memory is not told: a profile's name, such as 1g.5gb, is rounded.
            found.append(
                replace(
                    parent,
                    uuid=uuid,
                    name=f"{parent.name} MIG {profile}",
                    parent=parent.uuid,
                    memory_bytes=0,
                )
            )
    return found


def _state(row: dict[str, str]) -> GpuState:
    return GpuState(
        uuid=row["uuid"],
        sm_clock_mhz=_whole(row["clocks.sm"]),
        sm_clock_most_mhz=_whole(row["clocks.max.sm"]),
        memory_clock_mhz=_whole(row["clocks.mem"]),
        temperature_c=_whole(row["temperature.gpu"]),
        power_w=_number(row["power.draw"]),
        problem=_trouble(row),
    )


def _trouble(row: dict[str, str]) -> str:
    """Give what stands in place of a value where the GPU does not answer."""
    for value in row.values():
        if re.search(r"lost|unknown error|err!|reset", value, re.IGNORECASE):
            return value.strip("[] ")
    return ""


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else None


def _whole(value: str) -> int | None:
    number = _number(value)
    return None if number is None else round(number)
