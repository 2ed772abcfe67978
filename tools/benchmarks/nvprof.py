"""Measure nvprof's overhead on a GPU: time of launches, memory of records."""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.benchmarks import projects, rows

ROUNDS = 7
LAUNCHES = 10_000
RECORDS = (1_000_000, 10_000_000)  # a launch makes two: the call's and the kernel's
PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
__global__ void nothing() {}
int main(int, char **argv)
{
    for (int i = 0, n = atoi(argv[1]); i < n; i++)
        nothing<<<1, 32>>>();
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6))
            fputs(line, stdout);
}
"""

Launching = Callable[[int], Sequence[str]]
"""Return the command that launches a number of kernels and prints its VmHWM."""


def measure() -> Iterator[dict[str, object]]:
    """Compile the program and install nvprof in a temporary folder; measure them."""
    if not projects.gpu_here():
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "launch.cu").write_text(PROGRAM)
        source, program = str(home / "launch.cu"), str(home / "launch")
        subprocess.run(["nvcc", "-arch=native", "-o", program, source], check=True)
        make = ["make", "-s", "-C", str(rows.ROOT / "image" / "nvprof"), "install"]
        subprocess.run([*make, f"PREFIX={home}", f"BUILD={home}/build"], check=True)
        yield from cost(str(home / "bin/nvprof"), lambda n: [program, str(n)], home)


def cost(nvprof: str, launching: Launching, home: Path) -> Iterator[dict[str, object]]:
    """Time launches without and with nvprof in turns; check that memory is bounded."""
    command = launching(LAUNCHES)
    taken = rows.alternated(
        {"bare": lambda: _run(command), "nvprof": lambda: _run([nvprof, *command])},
        ROUNDS,
    )
    bare, ours = (statistics.median(taken[way]) for way in ("bare", "nvprof"))
    yield rows.row(
        f"nvprof, {LAUNCHES} launches",
        "at most 1.3 times the bare run",
        ours <= 1.3 * bare,
        ratio=round(ours / bare, 3),
        bare_ms=rows.spread(taken["bare"]),
        nvprof_ms=rows.spread(taken["nvprof"]),
    )
    for words in ([], ["-f", "-o", str(home / "file")]):
        few, many = (
            _peak_kib(_run([nvprof, *words, *launching(records // 2)]))
            for records in RECORDS
        )
        yield rows.row(
            f"nvprof {' '.join(words[:-1])}".strip() + f", {RECORDS[-1]} records",
            f"no more memory than {RECORDS[0]} records take, within 10 %",
            many <= 1.1 * few,
            peak_kib=many,
            of_fewer_kib=few,
        )


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def _peak_kib(said: str) -> int:
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", said)
    return int(kib)
