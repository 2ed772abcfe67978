"""The SQLite file that `nsys export --type sqlite` writes, of one or more processes.

Versions of nsys differ in columns and tables; what a file lacks is left out.
"""

from __future__ import annotations

from runner.core.trace import LaneKind, TracedGpu
from runner.traces import cuda_names
from runner.traces.database import Database
from runner.traces.layouts import LaunchColumns, Process, Records, TraceLayout
from runner.traces.words import LONGEST_TITLE, bounded, whole

_LANE = ("deviceId", "contextId", "streamId")
_LAUNCH = LaunchColumns(
    ("gridX", "gridY", "gridZ"),
    ("blockX", "blockY", "blockZ"),
    *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
)
_TABLE = "CUPTI_ACTIVITY_KIND_"

# The process ID is in bits 24 to 47 of either, the thread ID in the lower ones.
_OF_PROCESS = "globalPid / 16777216 % 16777216"
_OF_THREAD = "globalTid / 16777216 % 16777216"
_THREAD = "globalTid % 16777216"

_RECORDS = (
    Records(
        *(f"{_TABLE}KERNEL", LaneKind.GPU, "demangledName", _LANE),
        link="correlationId",
        process=_OF_PROCESS,
        shape=_LAUNCH,
    ),
    Records(
        *(f"{_TABLE}MEMCPY", LaneKind.GPU, "copyKind", _LANE),
        link="correlationId",
        process=_OF_PROCESS,
        names=cuda_names.COPIES,
        other_names=cuda_names.COPY,
        facts=(("size", "bytes", "bytes"),),
    ),
    Records(
        *(f"{_TABLE}MEMSET", LaneKind.GPU, "0", _LANE),
        link="correlationId",
        process=_OF_PROCESS,
        names={0: cuda_names.SET},
        other_names=cuda_names.SET,
        facts=(("size", "bytes", "bytes"), ("value", "value", "number")),
    ),
    Records(
        *(f"{_TABLE}RUNTIME", LaneKind.API, "nameId", (_THREAD,)),
        link="correlationId",
        process=_OF_THREAD,
        facts=(("result", "returnValue", "number"),),
        versioned_names=True,
    ),
    Records(
        *("NVTX_EVENTS", LaneKind.RANGE, "coalesce(textId, text)", (_THREAD,)),
        process=_OF_THREAD,
        only="eventType IN (59, 60)",  # ranges that were pushed or started, and ended
    ),
)


def is_one(tables: frozenset[str]) -> bool:
    """Return whether a file with these tables is an export of nsys."""
    return "StringIds" in tables


def layout(base: Database) -> TraceLayout:
    """Return what the file has."""
    return TraceLayout(
        "nsys",
        _RECORDS,
        ("StringIds", "id", "value"),
        _processes(base),
        _gpus(base),
        tuple(_problems(base)),
    )


def _processes(base: Database) -> dict[int | None, Process]:
    if not base.has("PROCESSES", "pid", "name"):
        return {}
    found: dict[int | None, Process] = {}
    for number, name in base.rows("SELECT pid, name FROM PROCESSES LIMIT 10000"):
        pid = whole(number)
        title = bounded(name, LONGEST_TITLE).rpartition("/")[2] or "process"
        found[pid] = Process(f"{title} ({pid})")
    return found


def _gpus(base: Database) -> tuple[TracedGpu, ...]:
    """Return the GPUs by the numbers that CUDA gave them, where the file has those."""
    if not base.has("TARGET_INFO_GPU", "id", "name"):
        return ()
    optional = ("smCount", "computeMajor", "computeMinor")
    columns = ", ".join(
        column if base.has("TARGET_INFO_GPU", column) else "NULL" for column in optional
    )
    known = {
        whole(number): TracedGpu(
            whole(number) or 0,
            bounded(name),
            "" if whole(major) is None else f"{whole(major)}.{whole(minor) or 0}",
            whole(multiprocessors),
        )
        for number, name, multiprocessors, major, minor in base.rows(
            f"SELECT id, name, {columns} FROM TARGET_INFO_GPU LIMIT 100"
        )
    }
    if not base.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        return tuple(known.values())
    named: dict[int, TracedGpu] = {}
    for gpu, cuda in base.rows(
        "SELECT gpuId, cudaId FROM TARGET_INFO_CUDA_DEVICE ORDER BY cudaId LIMIT 1000"
    ):
        number, of = whole(cuda), known.get(whole(gpu))
        if number is not None and of is not None:
            found = TracedGpu(number, of.name, of.capability, of.multiprocessors)
            named.setdefault(number, found)
    return tuple(named.values() or known.values())


def _problems(base: Database) -> list[str]:
    if any(base.has(records.table) for records in _RECORDS):
        return []
    return [
        "it has no CUDA activities; profile with `nsys profile --trace=cuda,nvtx`",
    ]
