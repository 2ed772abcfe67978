"""Read the lines of a trace from a store, in the order of their start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nvprof.store import Store
from nvprof.traces import Activity, Extent

DEVICE_MEMORY = 3

GPU = (
    "SELECT start, end - start, text, correlation, device, context, stream,"
    " grid_x, grid_y, grid_z, block_x, block_y, block_z,"
    " registers, static_shared, dynamic_shared,"
    " NULL AS bytes, NULL AS source, NULL AS destination, NULL AS launched"
    " FROM kernel JOIN name ON name.id = kernel.name"
    " UNION ALL SELECT start, end - start, text, correlation, device, context, stream,"
    " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " bytes, source, destination, NULL"
    " FROM memcpy JOIN name ON name.id = memcpy.name"
    " UNION ALL SELECT start, end - start, text, correlation, device, context, stream,"
    " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    f" bytes, {DEVICE_MEMORY}, NULL, NULL"
    " FROM memset JOIN name ON name.id = memset.name"
)
CALLS = (
    "SELECT start, end - start, text, correlation, NULL AS device, NULL, NULL,"
    " NULL AS grid_x, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " (SELECT text FROM kernel JOIN name ON name.id = kernel.name"
    "  WHERE kernel.correlation = api.correlation LIMIT 1)"
    " FROM api JOIN name ON name.id = api.name"
)
LEVELS = {
    "all": "",
    "none": " WHERE 0",
    "runtime": " WHERE text LIKE 'cuda%'",
    "driver": " WHERE text NOT LIKE 'cuda%'",
}


def gpu(store: Store, devices: frozenset[int] | None) -> Iterator[Activity]:
    """Yield the GPU activities."""
    query = f"SELECT * FROM ({GPU}){_on(devices)} ORDER BY start"
    return map(_activity, store.select(query))


def api(store: Store, level: str) -> Iterator[Activity]:
    """Yield the API calls."""
    return map(_activity, store.select(f"{CALLS}{LEVELS[level]} ORDER BY start"))


def both(
    store: Store, devices: frozenset[int] | None, level: str
) -> Iterator[Activity]:
    """Yield GPU activities and API calls together."""
    where = LEVELS[level]
    query = f"SELECT * FROM ({GPU}){_on(devices)} UNION ALL {CALLS}{where}"
    return map(_activity, store.select(f"{query} ORDER BY start"))


def _on(devices: frozenset[int] | None) -> str:
    if devices is None:
        return ""
    return f" WHERE device IN ({', '.join(map(str, sorted(devices)))})"


def _activity(row: tuple[Any, ...]) -> Activity:
    start, duration, name, correlation, device, context, stream, *rest = row
    gx, gy, gz, bx, by, bz, registers, static, dynamic, *copied, launched = rest
    size, source, destination = copied
    return Activity(
        start,
        duration,
        name,
        correlation,
        None if gx is None else (gx, gy, gz),
        None if bx is None else (bx, by, bz),
        registers,
        static,
        dynamic,
        size,
        source,
        destination,
        device,
        context,
        stream,
        launched,
    )


def extent(store: Store, tables: tuple[str, ...]) -> Extent:
    """Return the greatest values of these tables."""
    starts, durations, bytes_ = [0], [0], [0]
    for table in tables:
        query = f"SELECT max(start), max(end - start) FROM {table}"
        for start, duration in store.select(query):
            starts.append(_int(start))
            durations.append(_int(duration))
    for table in ("memcpy", "memset"):
        for (most,) in store.select(f"SELECT max(bytes) FROM {table}"):
            bytes_.append(-1 if most is None else _int(most))
    shared = next(
        store.select("SELECT max(static_shared), max(dynamic_shared) FROM kernel")
    )
    return Extent(
        copies=max(bytes_[1:]) >= 0,
        start=max(starts),
        duration=max(durations),
        static_shared=_int(shared[0]),
        dynamic_shared=_int(shared[1]),
        bytes=max(bytes_),
    )


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
