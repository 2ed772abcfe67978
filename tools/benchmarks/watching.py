"""Measure `rai run --watch`: from a save to the next run's first output."""

from __future__ import annotations

import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tools.benchmarks import projects, rows
from tools.benchmarks.docker_engine import IMAGE

RAI = str(Path(sys.executable).with_name("rai"))
ROUNDS = 7
MORE_THAN_START_S = 0.5
FILES, IDLE_S, SHARE = 1000, 20.0, 0.02
SPEC = f"""\
rai: {{image: {IMAGE}}}
commands:
  build:
    - sh -c 'cat $RAI_SOURCE_DIR/word; sleep $(cat $RAI_SOURCE_DIR/pause)'
"""


def measure() -> Iterator[dict[str, object]]:
    """Save while nothing runs and while a run goes on; beside that start plain runs."""
    for engine in ("local", "docker"):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["RAI_HOME"] = f"{folder}/home"
            project = _written(Path(folder, "p"))
            yield _latency(engine, project, _written(Path(folder, "alone")))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        yield _idle(_written(Path(folder, "p")))


def _written(project: Path) -> Path:
    projects.write(project, SPEC)
    for number in range(FILES):
        file = project / f"part{number % 20}" / f"file{number}.c"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"int f{number}() {{ return {number}; }}\n" * 50)
    return project


def _latency(engine: str, project: Path, alone: Path) -> dict[str, object]:
    """Take turns: a save while idle, one during a run, and a run by itself."""
    own, idle, busy = [], [], []
    with _watch(engine, project) as watching:
        assert watching.stdout is not None
        for _ in range(ROUNDS + 1):
            own.append(_start(engine, alone))
            idle.append(saved(project, watching.stdout, "60"))
            time.sleep(1)
            busy.append(saved(project, watching.stdout, "0"))
            time.sleep(2)  # the run ends
        watching.send_signal(signal.SIGINT)
    own, idle, busy = own[1:], idle[1:], busy[1:]
    start = statistics.median(own)
    more = {"idle": statistics.median(idle), "busy": statistics.median(busy)}
    return rows.row(
        f"watch, {engine}",
        f"first output at most {MORE_THAN_START_S} s after that of a run by itself",
        all(each - start <= MORE_THAN_START_S for each in more.values()),
        **{
            f"{name}_more_ms": round(1000 * (each - start), 1)
            for name, each in more.items()
        },
        own_start=rows.spread(own),
        save_when_idle=rows.spread(idle),
        save_during_a_run=rows.spread(busy),
        files=FILES,
    )


def _idle(project: Path) -> dict[str, object]:
    """Measure the processor time of a watch in which nothing is saved."""
    with _watch("local", project) as watching:
        assert watching.stdout is not None
        saved(project, watching.stdout, "0")
        time.sleep(5)
        before = _cpu_s(watching.pid)
        time.sleep(IDLE_S)
        share = (_cpu_s(watching.pid) - before) / IDLE_S
        watching.send_signal(signal.SIGINT)
    return rows.row(
        "watch, idle",
        f"at most {SHARE:.0%} of a processor for {FILES} files",
        share <= SHARE,
        percent=round(100 * share, 2),
        files=FILES,
    )


def _watch(engine: str, project: Path) -> subprocess.Popen[bytes]:
    write(project, secrets.token_hex(4), "0")
    words = [RAI, "run", "-p", str(project), "--engine", engine, "--watch"]
    started = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    assert started.stdout is not None
    started.stdout.readline()
    time.sleep(2)
    return started


def _start(engine: str, project: Path) -> float:
    """Return how long a run by itself takes to its first output."""
    write(project, secrets.token_hex(4), "0")
    began = time.perf_counter()
    words = [RAI, "run", "-p", str(project), "--engine", engine]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as run:
        assert run.stdout is not None
        run.stdout.readline()
        return time.perf_counter() - began


def saved(project: Path, output: IO[bytes], pause: str) -> float:
    """Save a file, and return how long it takes until a run prints what is in it."""
    word = secrets.token_hex(4)
    write(project, word, pause)
    began = time.perf_counter()
    while (line := output.readline()).strip() != word.encode():
        if not line:
            raise SystemExit("rai run --watch has ended")
    return time.perf_counter() - began


def write(project: Path, word: str, pause: str) -> None:
    """Write what the next run prints, and for how long it goes on after that."""
    (project / "pause").write_text(pause)
    (project / "word").write_text(f"{word}\n")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
