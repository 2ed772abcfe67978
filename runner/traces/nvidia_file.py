"""The SQLite file that NVIDIA's own nvprof wrote with `-o`.

Names are numbers of StringTable; calls have CUPTI's callback IDs in their place.
"""

from __future__ import annotations

from runner.core.trace import LaneKind, TracedGpu
from runner.traces import cuda_names
from runner.traces.database import Database
from runner.traces.layouts import LaunchColumns, Process, Records, TraceLayout
from runner.traces.words import bounded, whole

_LANE = ("deviceId", "contextId", "streamId")
_LAUNCH = LaunchColumns(
    ("gridX", "gridY", "gridZ"),
    ("blockX", "blockY", "blockZ"),
    *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
)
_TABLE = "CUPTI_ACTIVITY_KIND_"
_KERNELS = tuple(
    Records(
        *(_TABLE + table, LaneKind.GPU, "name", _LANE),
        link="correlationId",
        shape=_LAUNCH,
    )
    for table in ("KERNEL", "CONCURRENT_KERNEL")
)
_CALLS = tuple(
    Records(
        *(_TABLE + table, LaneKind.API, "cbid", ("threadId",)),
        link="correlationId",
        names=names,
        other_names=other,
        facts=(("result", "returnValue", "number"),),
    )
    for table, names, other in (
        ("RUNTIME", cuda_names.RUNTIME_CALLS, cuda_names.RUNTIME_CALL),
        ("DRIVER", {}, cuda_names.DRIVER_CALL),
    )
)
_RECORDS = (
    *_KERNELS,
    Records(
        *(f"{_TABLE}MEMCPY", LaneKind.GPU, "copyKind", _LANE),
        link="correlationId",
        names=cuda_names.COPIES,
        other_names=cuda_names.COPY,
        facts=(
            ("size", "bytes", "bytes"),
            ("from", "srcKind", "memory"),
            ("to", "dstKind", "memory"),
        ),
    ),
    Records(
        *(f"{_TABLE}MEMSET", LaneKind.GPU, "0", _LANE),
        link="correlationId",
        names={0: cuda_names.SET},
        other_names=cuda_names.SET,
        facts=(("size", "bytes", "bytes"), ("value", "value", "number")),
    ),
    *_CALLS,
)


def is_one(tables: frozenset[str]) -> bool:
    """Return whether a file with these tables is one of NVIDIA's nvprof."""
    return "StringTable" in tables and any(each.table in tables for each in _RECORDS)


def layout(base: Database) -> TraceLayout:
    """Return what the file has."""
    names = ("StringTable", "_id_", "value")
    return TraceLayout(
        "NVIDIA's nvprof", _RECORDS, names, {None: Process(_process(base))}, _gpus(base)
    )


def _process(base: Database) -> str:
    for records in _CALLS:
        if base.has(records.table, "processId"):
            for (pid,) in base.rows(f"SELECT processId FROM {records.table} LIMIT 1"):
                return f"process {whole(pid)}"
    return "process"


def _gpus(base: Database) -> tuple[TracedGpu, ...]:
    table = f"{_TABLE}DEVICE"
    columns = (
        *("id", "name", "computeCapabilityMajor", "computeCapabilityMinor"),
        "numMultiprocessors",
    )
    if not base.has(table, *columns) or not base.has("StringTable", "_id_", "value"):
        return ()
    rows = base.rows(
        f"SELECT device.{', device.'.join(columns)}, value FROM {table} AS device"
        " LEFT JOIN StringTable ON StringTable._id_ = device.name LIMIT 100"
    )
    return tuple(
        TracedGpu(
            whole(number) or 0,
            bounded(name),
            "" if whole(major) is None else f"{whole(major)}.{whole(minor) or 0}",
            whole(multiprocessors),
        )
        for number, _, major, minor, multiprocessors, name in rows
    )
