"""The SQLite file that rai's nvprof writes; docs/nvprof.md documents it."""

from __future__ import annotations

from runner.core.trace import LaneKind, TracedGpu
from runner.traces.database import Database, Value
from runner.traces.layouts import LaunchColumns, Process, Records, TraceLayout
from runner.traces.words import bounded, capability, whole

FORMAT = 1

_LANE = ("device", "context", "stream")
_LAUNCH = LaunchColumns(
    ("grid_x", "grid_y", "grid_z"),
    ("block_x", "block_y", "block_z"),
    *("registers", "static_shared", "dynamic_shared"),
)
_COPY = (
    ("size", "bytes", "bytes"),
    ("from", "source", "memory"),
    ("to", "destination", "memory"),
)
_RECORDS = (
    Records(
        *("kernel", LaneKind.GPU, "name", _LANE),
        link="correlation",
        shape=_LAUNCH,
        optional=False,
    ),
    Records(*("memcpy", LaneKind.GPU, "name", _LANE), link="correlation", facts=_COPY),
    Records(
        *("memset", LaneKind.GPU, "name", _LANE),
        link="correlation",
        facts=(("size", "bytes", "bytes"), ("value", "value", "number")),
    ),
    Records(
        *("api", LaneKind.API, "name", ("thread",)),
        link="correlation",
        facts=(("result", "result", "number"),),
        optional=False,
    ),
)


def is_one(tables: frozenset[str]) -> bool:
    """Return whether a file with these tables is one of rai's nvprof."""
    return {"nvprof", "kernel", "api"} <= tables


def layout(base: Database) -> TraceLayout:
    """Return what the file has."""
    facts = dict[Value, Value]()
    if base.has("nvprof", "key", "value"):
        for key, value in base.rows("SELECT key, value FROM nvprof LIMIT 100"):
            facts[key] = value
    command = bounded(facts.get("command")).replace("\0", " ")
    pid = whole(facts.get("pid"))
    title = command or f"process {pid or 'unknown'}"
    if command and pid is not None:
        title += f" ({pid})"
    return TraceLayout(
        "nvprof",
        _RECORDS,
        ("name", "id", "text"),
        {None: Process(title, command)},
        _gpus(base),
        tuple(_problems(facts)),
    )


def _gpus(base: Database) -> tuple[TracedGpu, ...]:
    if not base.has("device", "id", "name", "capability", "multiprocessors"):
        return ()
    rows = base.rows(
        "SELECT id, name, capability, multiprocessors FROM device LIMIT 100"
    )
    return tuple(
        TracedGpu(
            whole(number) or 0,
            bounded(name),
            capability(whole(made)),
            whole(multiprocessors),
        )
        for number, name, made, multiprocessors in rows
    )


def _problems(facts: dict[Value, Value]) -> list[str]:
    found = []
    if facts.get("format") != FORMAT:
        found.append("it is of another version of nvprof; some of it may be missing")
    if not whole(facts.get("ended")):
        found.append(
            "the process did not exit normally; its last activities may be missing"
        )
    missing = (whole(facts.get("dropped")) or 0) + (whole(facts.get("lost")) or 0)
    if missing > 0:
        found.append(f"{missing:,} records were lost while the program ran")
    return found
