"""Measure the sums and the timeline of files of a million spans."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import rows

SPANS = 1_000_000
ROUNDS = 3
CPU_LIMIT_S = 3.0
MEMORY_LIMIT_MB = 400
READ = """
import resource, sys
from pathlib import Path
from runner import traces
trace, timeline = traces.read(Path(sys.argv[1]), "file")
assert trace.spans == sum(timeline.merged) and not trace.problems, trace
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, len(timeline.start))
"""


def measure() -> Iterator[dict[str, object]]:
    """Make a file of each kind, of as many launches as calls; read each."""
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (
            ("nvprof", _nvprof),
            ("nsys export", _nsys),
            ("trace events", _events),
        ):
            path = Path(folder) / "file"
            path.unlink(missing_ok=True)
            make(path)
            taken = sorted(_read(path) for _ in range(ROUNDS))
            cpu_s, peak_kib, drawn = taken[ROUNDS // 2]
            yield rows.row(
                f"sums and timeline of {SPANS} spans, {name}",
                f"at most {CPU_LIMIT_S} s of CPU, {MEMORY_LIMIT_MB} MB",
                cpu_s <= CPU_LIMIT_S and peak_kib <= MEMORY_LIMIT_MB * 1000,
                cpu_s=[round(each[0], 2) for each in taken],
                peak_mb=round(peak_kib / 1000),
                spans_drawn=int(drawn),
                file_mb=round(path.stat().st_size / 1e6),
                load=os.getloadavg()[0],
            )


def _read(path: Path) -> tuple[float, ...]:
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=rows.ROOT
    )
    return tuple(map(float, done.stdout.split()))


def spans() -> Iterator[tuple[int, int, int, int]]:
    """Yield of each launch its number, when it is called, its length and its grid."""
    made, at = random.Random(1), 0
    for number in range(SPANS // 2):
        length = int(made.lognormvariate(8.5, 1))
        yield number, at, length, made.randrange(1, 60)
        at += length + made.randrange(3000)


def _nvprof(path: Path) -> None:
    sys.path.insert(0, str(rows.ROOT / "image" / "nvprof"))
    from nvprof import store

    _filled(
        path,
        store.TABLES,
        ("nvprof VALUES (?, ?)", [("format", 1), ("pid", 42), ("ended", 1)]),
        ("name VALUES (?, ?)", _names()),
        (
            "kernel VALUES (?, ?, 0, 1, 7, ?, ?, 1, 1, 256, 1, 1, 32, 0, 0, ?)",
            ((at, at + ns, n, grid, grid % 40) for n, at, ns, grid in spans()),
        ),
        (
            "api VALUES (?, ?, 42, ?, ?, 0)",
            ((at, at + 2000, n, 100 + n % 10) for n, at, _, _ in spans()),
        ),
    )


def _nsys(path: Path) -> None:
    shape = "gridX, gridY, gridZ, blockX, blockY, blockZ"
    _filled(
        path,
        f"""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId,
          streamId, correlationId, globalPid, demangledName, registersPerThread,
          {shape}, staticSharedMemory, dynamicSharedMemory);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid,
          correlationId, nameId, returnValue);
        """,
        ("StringIds VALUES (?, ?)", _names()),
        (
            "CUPTI_ACTIVITY_KIND_KERNEL"
            " VALUES (?, ?, 0, 1, 7, ?, 704643072, ?, 32, ?, 1, 1, 256, 1, 1, 0, 0)",
            ((at, at + ns, n, grid % 40, grid) for n, at, ns, grid in spans()),
        ),
        (
            "CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 704643114, ?, ?, 0)",
            ((at, at + 2000, n, 100 + n % 10) for n, at, _, _ in spans()),
        ),
    )


def _names() -> list[tuple[int, str]]:
    kernels = [(n, f"void kernel_{n}(float const *, int)") for n in range(40)]
    return kernels + [(100 + n, f"cudaCall{n}") for n in range(10)]


Filling = tuple[str, Iterator[tuple[object, ...]] | list[tuple[object, ...]]]


def _filled(path: Path, schema: str, *tables: Filling) -> None:
    base = sqlite3.connect(path)
    base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + schema)
    for table, values in tables:
        base.executemany(f"INSERT INTO {table}", values)
    base.commit()
    base.close()


def _events(path: Path) -> None:
    """Write what PyTorch's profiler writes of launches and calls."""
    with path.open("w") as file:
        file.write('{"schemaVersion": 1, "traceEvents": [\n')
        between = ""
        for number, at, length, grid in spans():
            for event in _pair(number, at / 1e3, length / 1e3, grid):
                file.write(between + json.dumps(event, separators=(",", ":")))
                between = ",\n"
        file.write("]}\n")


def _pair(number: int, at: float, length: float, grid: int) -> Iterator[object]:
    yield {
        "ph": "X",
        "cat": "kernel",
        "name": f"void kernel_{grid % 40}(float const *, int)",
        "pid": 0,
        "tid": 7,
        "ts": at,
        "dur": length,
        "args": {
            "External id": number,
            "queued": 0,
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": number,
            "registers per thread": 32,
            "shared memory": 0,
            "blocks per SM": 0.5,
            "warps per SM": 4.0,
            "grid": [grid, 1, 1],
            "block": [256, 1, 1],
        },
    }
    yield {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": f"cudaCall{number % 10}",
        "pid": 42,
        "tid": 42,
        "ts": at,
        "dur": 2.0,
        "args": {"External id": number, "cbid": 211, "correlation": number},
    }
