"""Stream a million lines through Docker; check order, throughput and memory."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import projects, rows

LINES = 1_000_000
LIMIT_MB_S = 15
FLAT_BYTES = 64 << 20

PRINTER = f"""\
my $text = "x" x 40;
for my $n (1 .. {LINES}) {{ print "line $n $text\\n"; }}
"""
SPEC = """\
rai: {version: 0.2, image: "debian:bookworm-slim"}
commands:
  build:
    - perl /src/lines.pl
"""


def expected() -> tuple[str, int]:
    """Return the checksum and the size of the program's output."""
    digest, size = hashlib.sha256(), 0
    for n in range(1, LINES + 1):
        line = f"line {n} {'x' * 40}\n".encode()
        digest.update(line)
        size += len(line)
    return digest.hexdigest(), size


def measure() -> Iterator[dict[str, object]]:
    """Run the program and check its output; yield MB/s and rai's peak memory."""
    want, size = expected()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        short = projects.write(Path(folder, "short"), projects.TRUE)
        project = projects.write(Path(folder, "p"), SPEC, {"lines.pl": PRINTER})
        projects.rai_run(short, "--engine", "docker")
        base_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        began = time.perf_counter()
        projects.rai_run(short, "--engine", "docker")
        idle_s = time.perf_counter() - began
        command = [projects.RAI, "run", "-p", str(project), "--engine", "docker"]
        began = time.perf_counter()
        child = subprocess.Popen([*command, "-q"], stdout=-1)
        assert child.stdout is not None
        digest, got = hashlib.sha256(), 0
        while data := child.stdout.read1(1 << 20):
            digest.update(data)
            got += len(data)
        code = child.wait()
        took_s = time.perf_counter() - began - idle_s
    peak_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    same = digest.hexdigest() == want
    rate, more = got / 1e6 / took_s, 1024 * (peak_kb - base_kb)
    yield rows.row(
        "a million lines through docker",
        f"none lost or reordered, at least {LIMIT_MB_S} MB/s, memory flat",
        same and code == 0 and rate >= LIMIT_MB_S and more < FLAT_BYTES,
        intact=same,
        lines=LINES,
        bytes=got,
        expected_bytes=size,
        mb_per_s=round(rate, 1),
        more_memory_mb=round(more / 1e6, 1),
    )
    sys.stdout.flush()
