"""Measure `rai report` of a run with a million profile records and 100 MB of log."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runner.core import (
    CommandRecord,
    Findings,
    Inference,
    Outcome,
    ProfileFile,
    Reason,
    RunRecord,
    State,
    Stream,
    TimeUsage,
    Verdict,
    events,
    record,
)
from runner.pack.write import zstd
from runner.store.paths import Home, RunPaths
from tools.benchmarks import rows
from tools.benchmarks.startup import RAI

sys.path.append(str(rows.ROOT / "image" / "nvprof"))
from nvprof import store

RECORDS = 1_000_000
LOG_BYTES = 100 * 10**6
PIECE_BYTES = 8 << 10
ROUNDS = 3
LIMIT_S, LIMIT_MIB, LIMIT_HTML_MB = 5.0, 500, 3.0
KERNELS = [f"kernel_{n}(float const *, float *, int)" for n in range(40)]
COMMAND = "nvprof -f -o all.nvprof --print-summary python final.py"


def measure() -> Iterator[dict[str, object]]:
    """Measure each form of a report, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"RAI_HOME": folder, "RAI_ENGINE": "bare"}
        paths = fill(Home(Path(folder)))
        for form in ("html", "md", "json"):
            file = Path(folder, f"report.{form}")
            words = [RAI, "report", paths.id, "-o", str(file)]
            spent = [spent_by(words) for _ in range(ROUNDS)]
            cpu = [cpu_s for cpu_s, _ in spent]
            peak_mib = max(peak for _, peak in spent)
            size_mb = file.stat().st_size / 1e6
            small = form != "html" or size_mb <= LIMIT_HTML_MB
            yield rows.row(
                f"rai report as {form}, {RECORDS} records, {LOG_BYTES // 10**6} MB log",
                f"at most {LIMIT_S:g} s of CPU, {LIMIT_MIB} MiB"
                + (f", {LIMIT_HTML_MB:g} MB" if form == "html" else ""),
                max(cpu) <= LIMIT_S and peak_mib <= LIMIT_MIB and small,
                cpu=rows.spread(cpu),
                peak_mib=round(peak_mib),
                size_mb=round(size_mb, 2),
            )


def spent_by(words: list[str]) -> tuple[float, float]:
    """Run a program without its output; return its CPU time and its peak in MiB."""
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
    child = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    _, status, used = os.wait4(child, 0)
    os.close(null)
    if status != 0:
        raise SystemExit(f"{words} exited with status {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def fill(home: Home) -> RunPaths:
    """Make the folder of a run."""
    paths = home.run("0123456789")
    paths.root.mkdir(parents=True)
    profile = home.root / "all.nvprof"
    recorded(profile)
    size = profile.stat().st_size
    with (
        paths.build.open("wb") as out,
        zstd.ZstdFile(out, "wb", level=1) as packed,
        tarfile.open(fileobj=packed, mode="w|") as tar,
    ):
        tar.add(profile, "build/all.nvprof")
    profile.unlink()
    logged(paths)
    files = (ProfileFile("nvprof", "all.nvprof", size),)
    found = Findings((Inference((0.5, 0.25), 0.85),), (TimeUsage(1.0, 0.5, 1.5),))
    commands = (
        CommandRecord(0, "./long", None, Outcome.OK, 0, wall_s=2.0, findings=found),
        CommandRecord(1, COMMAND, None, Outcome.OK, 0, wall_s=3.0, profile_files=files),
    )
    ended = RunRecord(
        paths.id,
        "/project",
        "rai_build.yml",
        1_790_000_000.0,
        State.DONE,
        Verdict(True, True, None, Reason.DONE),
        1_790_000_100.0,
        commands=commands,
    )
    paths.record.write_bytes(record.to_json(ended))
    return paths


def logged(paths: RunPaths) -> None:
    """Write the log of the first command, in pieces as an engine brings them."""
    piece = b"".join(b"%09d a line of a program\n" % n for n in range(300))[
        :PIECE_BYTES
    ]
    paths.stderr.touch()
    with paths.stdout.open("wb") as log, paths.events.open("wb") as lines:
        for offset in range(0, LOG_BYTES, len(piece)):
            log.write(piece)
            event = events.Output(0, Stream.STDOUT, b"", offset, len(piece))
            lines.write(events.to_line(event, 1_790_000_000.0))


def recorded(path: Path) -> None:
    """Write a profile: as many launches as calls, of several streams and threads."""
    base = sqlite3.connect(path)
    base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    base.executescript(store.TABLES)
    facts = {"format": 1, "command": "python\0final.py", "pid": 42, "ended": 1}
    base.executemany("INSERT INTO nvprof VALUES (?, ?)", facts.items())
    names = [*KERNELS, "cuLaunchKernel"]
    base.executemany("INSERT INTO name VALUES (?, ?)", enumerate(names))
    base.execute("INSERT INTO device VALUES (0, 'NVIDIA H200', 9, 132)")
    # Nothing in it repeats, so that it packs no better than what a program does.
    chance = random.Random(1)
    base.executemany(
        f"INSERT INTO kernel VALUES ({', '.join('?' * 16)})",
        (
            (
                *_span(chance, 5000 * n + 2000),
                *(0, 1, 7 + chance.randrange(4), n + 1),
                *(834, 1, 1, 256, 1, 1, 40, 4096, 0, chance.randrange(len(KERNELS))),
            )
            for n in range(RECORDS // 2)
        ),
    )
    base.executemany(
        "INSERT INTO api VALUES (?, ?, ?, ?, ?, ?)",
        (
            (*_span(chance, 5000 * n), 100 + n % 3, n + 1, len(KERNELS), 0)
            for n in range(RECORDS // 2)
        ),
    )
    base.executescript(store.INDICES)
    base.commit()
    base.close()


def _span(chance: random.Random, start: int) -> tuple[int, int]:
    """Return when something begins and ends, somewhere from a time on."""
    begin = start + chance.randrange(1000)
    return begin, begin + 300 + int(chance.expovariate(1 / 900))
