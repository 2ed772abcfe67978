"""How profilers lay out their SQLite files: rai's nvprof, NVIDIA's, and nsys's exports.

docs/gpu.md documents the file of rai's nvprof. In the file that NVIDIA's own nvprof
wrote with `-o`, names are numbers of StringTable, and calls have CUPTI's callback IDs
in their place. Exports of `nsys export --type sqlite` have one or more processes, and
versions of nsys differ in columns and tables; what a file lacks is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from runner.core.evidence import LaneKind, TracedGpu
from runner.figures.traces.database import Database, Value
from runner.figures.traces.sums import LONGEST_TITLE, bounded, gpu, whole

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORDS = frozenset({"coalesce", "IN"})


class Records(Struct, frozen=True):
    """One table of spans; columns may be expressions of columns.

    ``name`` is the column of the name's number in the layout's table of names, or, if
    there is ``other_names``, in ``names``; the former is what the rest are called.
    ``lane`` are the columns whose values tell lanes apart: device, context and stream,
    or a thread. ``process`` is the column that tells processes apart, "" for a file of
    one. ``shape`` are the columns of a launch's grid, block, registers, static and
    dynamic shared memory. ``facts`` are further columns of a span, each with the words
    and the spelling for a reader. ``only`` is the condition of the rows that are spans.
    """

    table: str
    kind: LaneKind
    name: str
    lane: tuple[str, ...]
    link: str = ""
    process: str = ""
    names: Mapping[int, str] = {}
    other_names: str = ""
    shape: tuple[str, ...] = ()
    facts: tuple[tuple[str, str, str], ...] = ()
    only: str = ""

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns that the table must have."""
        used = ["start", "end", self.name, *self.lane, self.link, self.process]
        used += [*self.shape, self.only, *(column for _, column, _ in self.facts)]
        return frozenset(_IDENTIFIER.findall(" ".join(used))) - _WORDS


class TraceLayout(Struct, frozen=True):
    """What a file has, as its program laid it out; found out from the file.

    ``names`` are the table of names and its columns of numbers and texts. ``processes``
    are what processes are called on lanes, by the value of their column, None in a file
    of one process; ``command`` is the command line that was profiled.
    """

    tool: str
    records: tuple[Records, ...]
    names: tuple[str, str, str]
    processes: Mapping[int | None, str]
    gpus: tuple[TracedGpu, ...] = ()
    command: str = ""
    problems: tuple[str, ...] = ()


def layout(base: Database) -> TraceLayout | None:
    """Return what a file has; None if no profiler wrote it."""
    if {"nvprof", "kernel", "api"} <= base.tables:
        return _nvprof(base)
    if "StringTable" in base.tables and any(base.has(each.table) for each in _NVIDIA):
        return _nvidia(base)
    return _nsys(base) if "StringIds" in base.tables else None


_SIZE = ("size", "bytes", "bytes")
_SET_FACTS = (_SIZE, ("value", "value", "number"))

_OWN = Records(
    *("", LaneKind.GPU, "name", ("device", "context", "stream")), link="correlation"
)
_OWN_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_OWN_COPY = (_SIZE, ("from", "source", "memory"), ("to", "destination", "memory"))
_NVPROF = (
    replace(
        _OWN,
        table="kernel",
        shape=(*_OWN_SHAPE, "registers", "static_shared", "dynamic_shared"),
    ),
    replace(_OWN, table="memcpy", facts=_OWN_COPY),
    replace(_OWN, table="memset", facts=_SET_FACTS),
    replace(
        _OWN,
        table="api",
        kind=LaneKind.API,
        lane=("thread",),
        facts=(("result", "result", "number"),),
    ),
)
FORMAT = 1


def _nvprof(base: Database) -> TraceLayout:
    facts: dict[Value, Value] = {}
    if base.has("nvprof", "key", "value"):
        rows = base.rows("SELECT key, value FROM nvprof LIMIT 100")
        facts = {row[0]: row[1] for row in rows}
    command = bounded(facts.get("command")).replace("\0", " ")
    pid = whole(facts.get("pid"))
    title = command or f"process {pid or 'unknown'}"
    if command and pid is not None:
        title += f" ({pid})"
    gpus: Iterable[tuple[Value, ...]] = ()
    if base.has("device", "id", "name", "capability", "multiprocessors"):
        gpus = base.rows(
            "SELECT id, name, multiprocessors, capability / 10, capability % 10"
            " FROM device LIMIT 100"
        )
    problems = []
    if facts.get("format") != FORMAT:
        problems.append("it is of another version of nvprof; some of it may be missing")
    if not whole(facts.get("ended")):
        problems.append(
            "the process did not exit normally; its last activities may be missing"
        )
    missing = (whole(facts.get("dropped")) or 0) + (whole(facts.get("lost")) or 0)
    if missing > 0:
        problems.append(f"{missing:,} records were lost while the program ran")
    return TraceLayout(
        "nvprof",
        _NVPROF,
        ("name", "id", "text"),
        {None: title},
        tuple(gpu(*row) for row in gpus),
        command,
        tuple(problems),
    )


_TABLE = "CUPTI_ACTIVITY_KIND_"
_DIRECTIONS = (
    *("HtoD", "DtoH", "HtoA", "AtoH", "AtoA"),
    *("AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
)
_COPIES = {n: f"[CUDA memcpy {how}]" for n, how in enumerate(_DIRECTIONS, 1)}
"""Copies as nvprof's table names them, by the numbers that CUPTI documents."""

_ACTIVITY = Records(
    *("", LaneKind.GPU, "", ("deviceId", "contextId", "streamId")), link="correlationId"
)
_LAUNCH = replace(
    _ACTIVITY,
    shape=(
        *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
        *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
    ),
)
_COPY = replace(
    _ACTIVITY,
    table=f"{_TABLE}MEMCPY",
    name="copyKind",
    names=_COPIES,
    other_names="[CUDA memcpy] of kind",
    facts=(_SIZE,),
)
_SET = replace(
    _ACTIVITY,
    table=f"{_TABLE}MEMSET",
    name="0",
    names={0: "[CUDA memset]"},
    other_names="[CUDA memset]",
    facts=_SET_FACTS,
)
_CALL = replace(
    _ACTIVITY,
    table=f"{_TABLE}RUNTIME",
    kind=LaneKind.API,
    lane=("threadId",),
    facts=(("result", "returnValue", "number"),),
)

_CALLS = """
3 GetDeviceCount 4 GetDeviceProperties 8 ConfigureCall 9 SetupArgument
10 GetLastError 11 PeekAtLastError 13 Launch 14 FuncSetCacheConfig
15 FuncGetAttributes 16 SetDevice 17 GetDevice 19 SetDeviceFlags 20 Malloc
21 MallocPitch 22 Free 23 MallocArray 24 FreeArray 25 MallocHost 26 FreeHost
27 HostAlloc 28 HostGetDevicePointer 30 MemGetInfo 31 Memcpy 32 Memcpy2D
39 MemcpyToSymbol 40 MemcpyFromSymbol 41 MemcpyAsync 44 Memcpy2DAsync
47 MemcpyToSymbolAsync 48 MemcpyFromSymbolAsync 49 Memset 50 Memset2D
51 MemsetAsync 55 BindTexture 123 ThreadExit 126 ThreadSynchronize
129 StreamCreate 130 StreamDestroy 131 StreamSynchronize 132 StreamQuery
133 EventCreate 134 EventCreateWithFlags 135 EventRecord 136 EventDestroy
137 EventSynchronize 138 EventQuery 139 EventElapsedTime 140 Malloc3D
144 Memcpy3D 147 StreamWaitEvent 152 HostRegister 153 HostUnregister
164 DeviceReset 165 DeviceSynchronize 211 LaunchKernel
"""
"""The runtime's calls that programs make most, by CUPTI's callback IDs."""

_NVIDIA_CALLS = (
    replace(
        _CALL,
        name="cbid",
        names={int(n): f"cuda{name}" for n, name in re.findall(r"(\d+) (\w+)", _CALLS)},
        other_names="runtime call",
    ),
    replace(_CALL, table=f"{_TABLE}DRIVER", name="cbid", other_names="driver call"),
)
_NVIDIA = (
    replace(_LAUNCH, table=f"{_TABLE}KERNEL", name="name"),
    replace(_LAUNCH, table=f"{_TABLE}CONCURRENT_KERNEL", name="name"),
    replace(
        _COPY,
        facts=(_SIZE, ("from", "srcKind", "memory"), ("to", "dstKind", "memory")),
    ),
    _SET,
    *_NVIDIA_CALLS,
)


def _nvidia(base: Database) -> TraceLayout:
    title = "process"
    for records in _NVIDIA_CALLS:
        if base.has(records.table, "processId"):
            for (pid,) in base.rows(f"SELECT processId FROM {records.table} LIMIT 1"):
                title = f"process {whole(pid)}"
    rows: Iterable[tuple[Value, ...]] = ()
    made = ("computeCapabilityMajor", "computeCapabilityMinor")
    columns = ("id", "name", "numMultiprocessors", *made)
    names = ("StringTable", "_id_", "value")
    if base.has(f"{_TABLE}DEVICE", *columns) and base.has(*names):
        rows = base.rows(
            f"SELECT device.id, value, device.{', device.'.join(columns[2:])}"
            f" FROM {_TABLE}DEVICE AS device"
            " LEFT JOIN StringTable ON StringTable._id_ = device.name LIMIT 100"
        )
    gpus = tuple(gpu(*row) for row in rows)
    return TraceLayout("NVIDIA's nvprof", _NVIDIA, names, {None: title}, gpus)


# The process ID is in bits 24 to 47 of either, the thread ID in the lower ones.
_OF_PROCESS = "globalPid / 16777216 % 16777216"
_OF_THREAD = "globalTid / 16777216 % 16777216"
_THREAD = ("globalTid % 16777216",)
_NSYS = (
    replace(
        _LAUNCH, table=f"{_TABLE}KERNEL", name="demangledName", process=_OF_PROCESS
    ),
    replace(_COPY, process=_OF_PROCESS),
    replace(_SET, process=_OF_PROCESS),
    replace(_CALL, name="nameId", lane=_THREAD, process=_OF_THREAD),
    Records(
        *("NVTX_EVENTS", LaneKind.RANGE, "coalesce(textId, text)", _THREAD),
        process=_OF_THREAD,
        only="eventType IN (59, 60)",  # ranges that were pushed or started, and ended
    ),
)


def _nsys(base: Database) -> TraceLayout:
    processes: dict[int | None, str] = {}
    if base.has("PROCESSES", "pid", "name"):
        for number, name in base.rows("SELECT pid, name FROM PROCESSES LIMIT 10000"):
            title = bounded(name, LONGEST_TITLE).rpartition("/")[2] or "process"
            processes[whole(number)] = f"{title} ({whole(number)})"
    problems: tuple[str, ...] = ()
    if not any(base.has(records.table) for records in _NSYS):
        problems = (
            "it has no CUDA activities; profile with `nsys profile --trace=cuda,nvtx`",
        )
    return TraceLayout(
        "nsys",
        _NSYS,
        ("StringIds", "id", "value"),
        processes,
        tuple(_nsys_gpus(base)),
        problems=problems,
    )


def _nsys_gpus(base: Database) -> Iterable[TracedGpu]:
    """Return the GPUs by the numbers that CUDA gave them, where the file has those."""
    table = "TARGET_INFO_GPU"
    if not base.has(table, "id", "name"):
        return ()
    optional = ("smCount", "computeMajor", "computeMinor")
    columns = ", ".join(each if base.has(table, each) else "NULL" for each in optional)
    # A join in SQLite would hold names of any length.
    rows = base.rows(f"SELECT id, name, {columns} FROM {table} LIMIT 100")
    known = {whole(number): gpu(number, *facts) for number, *facts in rows}
    if not base.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        return known.values()
    named: dict[int, TracedGpu] = {}
    for own, cuda in base.rows(
        "SELECT gpuId, cudaId FROM TARGET_INFO_CUDA_DEVICE ORDER BY cudaId LIMIT 1000"
    ):
        number, found = whole(cuda), known.get(whole(own))
        if number is not None and found is not None:
            named.setdefault(number, replace(found, number=number))
    return named.values() or known.values()
