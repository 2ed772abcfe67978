"""Write a store in the Trace Event Format of ui.perfetto.dev and chrome://tracing.

Each CPU thread and each GPU stream is a track. Arrows (flow events) connect API calls
with the activities that they started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from nvprof.store import Store
from nvprof.traces import MEMORY, device_name

GPU_PID = 1 << 22
"""GPUs are processes of the trace; Linux's process IDs are below this number."""

Event = dict[str, object]


def _of(table: str, columns: str) -> str:
    """Return the query of GPU activities; the last column is whether a call exists."""
    return (
        "SELECT start, end - start, text, correlation, device, context, stream,"
        f" {columns},"
        f" EXISTS (SELECT 1 FROM api WHERE api.correlation = {table}.correlation)"
        f" FROM {table} JOIN name ON name.id = {table}.name ORDER BY start"
    )


KERNELS = _of(
    "kernel",
    "grid_x, grid_y, grid_z, block_x, block_y, block_z,"
    " registers, static_shared, dynamic_shared",
)
COPIES = _of("memcpy", "bytes, source, destination")
SETS = _of("memset", "bytes, value")
CALLS = (
    "SELECT start, end - start, text, correlation, thread, result,"
    " EXISTS (SELECT 1 FROM kernel WHERE kernel.correlation = api.correlation)"
    " OR EXISTS (SELECT 1 FROM memcpy WHERE memcpy.correlation = api.correlation)"
    " OR EXISTS (SELECT 1 FROM memset WHERE memset.correlation = api.correlation)"
    " FROM api JOIN name ON name.id = api.name ORDER BY start"
)


def write(store: Store, file: TextIO) -> int:
    """Write the store, one event per line; return the number of events."""
    count, encode = 0, json.JSONEncoder(separators=(",", ":")).encode
    file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    for event in events(store):
        file.write(",\n" if count else "")
        file.write(encode(event))
        count += 1
    file.write("\n]}\n")
    return count


def events(store: Store) -> Iterator[Event]:
    """Yield the events: names of tracks, GPU activities, API calls, arrows."""
    yield from _tracks(store)
    for row in store.select(KERNELS):
        yield from _kernel(row)
    for row in store.select(COPIES):
        size, source, destination = row[7:10]
        yield from _work(
            row,
            "memcpy",
            {
                "bytes": size,
                "source": MEMORY.get(_int(source), "unknown"),
                "destination": MEMORY.get(_int(destination), "unknown"),
            },
        )
    for row in store.select(SETS):
        yield from _work(row, "memset", {"bytes": row[7], "value": row[8]})
    yield from _calls(store)


def _tracks(store: Store) -> Iterator[Event]:
    pid, devices = store.number("pid"), store.devices()
    yield _name("process_name", pid, 0, store.command or f"process {pid}")
    for (thread,) in store.select("SELECT DISTINCT thread FROM api ORDER BY 1"):
        yield _name("thread_name", pid, _int(thread), f"Thread {thread}")
    streams = list(
        store.select(
            "SELECT DISTINCT device, context, stream FROM kernel UNION"
            " SELECT DISTINCT device, context, stream FROM memcpy UNION"
            " SELECT DISTINCT device, context, stream FROM memset ORDER BY 1, 2, 3"
        )
    )
    for number in sorted({_int(device) for device, _, _ in streams}):
        label = device_name(number, devices)
        yield _name("process_name", GPU_PID + number, 0, label)
    for device, context, stream in streams:
        track = _track(_int(context), _int(stream))
        label = f"Context {context}, stream {stream}"
        yield _name("thread_name", GPU_PID + _int(device), track, label)


def _track(context: int, stream: int) -> int:
    """Return a track number that is unique for a context and a stream."""
    return context * 1_000_000 + stream


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _kernel(row: tuple[Any, ...]) -> Iterator[Event]:
    registers, static, dynamic = row[13:16]
    return _work(
        row,
        "kernel",
        {
            "grid": list(row[7:10]),
            "block": list(row[10:13]),
            "registers per thread": registers,
            "static shared memory": static,
            "dynamic shared memory": dynamic,
        },
    )


def _work(row: tuple[Any, ...], category: str, more: Event) -> Iterator[Event]:
    start, duration, name, correlation, device, context, stream = row[:7]
    where: Event = {"pid": GPU_PID + device, "tid": _track(context, stream)}
    yield {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": start / 1e3,
        "dur": duration / 1e3,
        **where,
        "args": {**more, "correlation": correlation},
    }
    if row[-1]:
        yield {
            "ph": "f",
            "bp": "e",
            "cat": "launch",
            "name": "launch",
            "id": correlation,
            "ts": start / 1e3,
            **where,
        }


def _calls(store: Store) -> Iterator[Event]:
    pid = store.number("pid")
    for start, duration, name, correlation, thread, result, works in store.select(
        CALLS
    ):
        begun = _int(start) / 1e3
        where: Event = {"pid": pid, "tid": thread}
        yield {
            "ph": "X",
            "cat": "api",
            "name": name,
            "ts": begun,
            "dur": _int(duration) / 1e3,
            **where,
            "args": {"correlation": correlation, "result": result},
        }
        if works:
            yield {
                "ph": "s",
                "cat": "launch",
                "name": "launch",
                "id": correlation,
                "ts": begun,
                **where,
            }


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
