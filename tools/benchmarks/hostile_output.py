"""Run programs that print 100 MB of anything, and events in great number.

Each kind goes through both engines by `rai run`, into a pipe; the log must have every
byte. The peak memory is that of rai's own process.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from runner.core import Stream
from runner.core import events as ev
from runner.store.paths import Home
from runner.store.runs import Recorder, create
from runner.system.machine import describe
from tools.benchmarks import projects, rows

BYTES = 100_000_000
LEAST_MB_S, MOST_MIB = 30, 200
EVENTS, LEAST_EVENTS_S = 200_000, 24_000

ENGINES = ("docker", "local")
KINDS = {
    "random": "",
    "nul": r'"\0" x 65536',
    "escapes": r'"\e[31mx\e[0K\e[2;5H" x 4096',
    "erased": r'("a" x 32768) . ("\e[1K" x 8192)',
    "returns": r'"\r" x 65536',
    "backspaces": r'"x\b" x 32768',
    "lines": r'"ab\n" x 21845',
    "one line": r'"a" x 65536',
    "near figures": r'"Op Time: x\n" x 5957',
    "figures": r'"New Inference\nOp Time: 0.123456\n" x 2048',
    "both streams": "",
}
PRINTER = """\
my ($kind) = @ARGV; my $most = %d; my $size = 0; $| = 1;
my %%kinds = (%s);
if ($kind eq "random") { exec("head", "-c", $most, "/dev/urandom") }
if ($kind eq "both streams") {
    for (1 .. 500000) { syswrite(STDOUT, "o\\n"); syswrite(STDERR, "e\\n") }
    exit 0
}
my $piece = $kinds{$kind}; my $left = $most;
while ($left > 0) { $left -= syswrite(STDOUT, $piece, $left) }
"""
SPEC = """\
rai: {{version: 0.2, image: "debian:bookworm-slim"}}
commands: {{build: ["perl /src/print.pl '{kind}'"]}}
"""


def measure() -> Iterator[dict[str, object]]:
    """Yield a row for each engine, and one for the events that it can record."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        for engine in ENGINES:
            yield _through(engine, Path(folder))
        yield _events(Path(folder))


def _through(engine: str, folder: Path) -> dict[str, object]:
    rates, memory, whole = {}, {}, True
    for kind in KINDS:
        took_s, peak_mib, printed, lines = _print(engine, kind, folder)
        rates[kind] = round(printed / 1e6 / took_s, 1)
        memory[kind] = peak_mib
        if kind == "both streams":
            events = lines
            rates.pop(kind)
            continue
        whole = whole and printed == BYTES
    return rows.row(
        f"100 MB of hostile output through {engine}",
        f"all in the log, at least {LEAST_MB_S} MB/s, rai below {MOST_MIB} MiB",
        whole and min(rates.values()) >= LEAST_MB_S and max(memory.values()) < MOST_MIB,
        mb_per_s=rates,
        peak_mib=memory,
        events_of_a_million_writes=events,
    )


def _print(engine: str, kind: str, folder: Path) -> tuple[float, int, int, int]:
    """Return seconds from the first byte on, peak memory, bytes and events of a run."""
    table = ", ".join(f'"{name}", {text or 0}' for name, text in KINDS.items())
    name = kind.replace(" ", "-")
    project = projects.write(
        folder / name, SPEC.format(kind=kind), {"print.pl": PRINTER % (BYTES, table)}
    )
    words = [projects.RAI, "run", "-p", str(project), "--engine", engine]
    child = subprocess.Popen([*words, "-q"], stdout=-1, stderr=-3)
    assert child.stdout is not None
    child.stdout.read1(1)
    began, peak = time.perf_counter(), 0
    while child.stdout.read1(1 << 20):
        peak = _peak_mib(child.pid) or peak
    code = child.wait()
    took_s = time.perf_counter() - began
    assert code == 0, f"{engine}, {kind}: exit status {code}"
    runs = sorted(Path(os.environ["RAI_HOME"], "runs").glob("[0-9a-f]*"), key=_made)
    events = (runs[-1] / "events.jsonl").read_bytes().count(b'"event":"Output"')
    return took_s, peak, (runs[-1] / "stdout.log").stat().st_size, events


def _made(path: Path) -> float:
    return path.stat().st_mtime


def _peak_mib(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s+([0-9]+) kB", text)
    return int(found[1]) // 1024 if found else 0


def _events(folder: Path) -> dict[str, object]:
    """Record events of both streams in turns, as a job does."""
    paths = create(Home(folder / "events"))
    pieces = [ev.Output(0, stream, b"x\n") for stream in Stream]
    with Recorder(paths) as recorder:
        machine = describe()
        recorder.keep(ev.Created(paths.id, "p", "rai_build.yml", None, machine))
        recorder.keep(ev.CommandStarted(0, "x"))
        began = time.perf_counter()
        for n in range(EVENTS):
            recorder.keep(pieces[n % 2])
        took_s = time.perf_counter() - began
    rate = round(EVENTS / took_s)
    size = paths.events.stat().st_size
    return rows.row(
        "events recorded",
        f"at least {LEAST_EVENTS_S:,} a second",
        rate >= LEAST_EVENTS_S,
        per_second=rate,
        bytes_each=round(size / EVENTS),
    )
