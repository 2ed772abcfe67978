"""Runs that outlive their client: detached, attached to, killed, and many in a row."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.benchmarks import projects, rows

MOST_MORE_S = 0.1
ROUNDS = 15
LINES = 1_000_000
MOST_TIMES = 1.2
KILLS = 200
RUNS = 200
LINES_SPEC = f"commands: {{build: ['seq {LINES}']}}\n"
SLOW_SPEC = (
    "commands: {build: ['echo one', 'sleep 0.1', \"sh -c 'seq 1000 > f'\", 'true']}\n"
)


def measure() -> Iterator[dict[str, object]]:
    """Measure detached runs of `true`, attach, kills, and runs back to back."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        for engine in ("local", "docker"):
            yield _detached(Path(folder), engine)
        yield _attached(Path(folder))
        yield _killed(Path(folder))
        yield _in_a_row(Path(folder))


def _detached(folder: Path, engine: str) -> dict[str, object]:
    project = projects.write(folder / "true", projects.TRUE)

    def attached() -> None:
        projects.rai_run(project, "--engine", engine)

    def detached() -> None:
        run = _start(project, engine)
        while not (run / "record.json").exists():
            time.sleep(0.002)

    ways = {"attached": attached, "detached": detached}
    taken = rows.alternated(ways, rounds=ROUNDS)
    more_s = statistics.median(taken["detached"]) - statistics.median(taken["attached"])
    return rows.row(
        f"a detached run of true, {engine}",
        f"at most {MOST_MORE_S} s more than an attached one, to its end",
        more_s <= MOST_MORE_S,
        more_s=round(more_s, 3),
        **{name: rows.spread(times) for name, times in taken.items()},
    )


def _attached(folder: Path) -> dict[str, object]:
    run = _start(projects.write(folder / "lines", LINES_SPEC), "bare")
    _rai("wait", run.name)
    wanted = "".join(f"{number}\n" for number in range(1, LINES + 1)).encode()
    same = all(_rai(way, run.name) == wanted for way in ("attach", "logs"))
    ways = {way: lambda way=way: _rai(way, run.name) for way in ("attach", "logs")}
    taken = rows.alternated(ways, rounds=7)
    times = statistics.median(taken["attach"]) / statistics.median(taken["logs"])
    return rows.row(
        f"rai attach to {LINES} lines",
        f"byte for byte, and at most {MOST_TIMES} times rai logs",
        same and times <= MOST_TIMES,
        same=same,
        times=round(times, 3),
        **{name: rows.spread(each) for name, each in taken.items()},
    )


def _killed(folder: Path) -> dict[str, object]:
    """Kill workers at any moment; see what is recorded and what is left."""
    project = projects.write(folder / "slow", SLOW_SPEC)
    chance = random.Random(1)
    states: dict[str, int] = {}
    names, false = set(), 0
    for _ in range(KILLS):
        run = _start(project, "local")
        names.add(run.name)
        pid = json.loads((run / "holder.json").read_text())["process"]["pid"]
        time.sleep(chance.uniform(0.0, 0.5))
        over = (run / "record.json").exists()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            over = True
        _rai("wait", run.name, check=False)
        record = json.loads((run / "record.json").read_text())
        states[record["state"]] = states.get(record["state"], 0) + 1
        whole = [c["outcome"] for c in record["commands"]] == ["ok"] * 4
        false += record["state"] == "done" and not whole
        assert not over or record["state"] == "done"
    projects.rai_run(project, "--engine", "local")
    left = sorted(path for path in _left() if path.split("rai-")[-1][:10] in names)
    return rows.row(
        f"{KILLS} kills of workers, local",
        "none done falsely, nothing left",
        not false and not left,
        states=states,
        falsely_done=false,
        left=left,
    )


def _in_a_row(folder: Path) -> dict[str, object]:
    """Run 200 times in one process; its memory, descriptors and disk must not grow."""
    import runner

    project = projects.write(folder / "true", projects.TRUE)
    home = folder / "row"
    figures = []
    for number in range(RUNS):
        list(runner.run(project, engine="local", home=home))
        if number + 1 in (RUNS // 4, RUNS):
            kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            open_files = len(list(Path("/proc/self/fd").iterdir()))
            figures.append((kib, open_files, _size(home) // (number + 1)))
    (kib, files, size), (later_kib, later_files, later_size) = figures
    flat = later_kib - kib < 2048 and later_files <= files and later_size <= size * 1.1
    return rows.row(
        f"{RUNS} runs in one process",
        "no growth of memory, descriptors, disk for each run",
        flat,
        peak_kib=[kib, later_kib],
        descriptors=[files, later_files],
        bytes_a_run=[size, later_size],
    )


def _start(project: Path, engine: str) -> Path:
    words = ("run", "-p", str(project), "--engine", engine, "--detach")
    run_id = _rai(*words, "-q").decode().strip()
    return Path(os.environ["RAI_HOME"], "runs", run_id)


def _rai(*words: str, check: bool = True) -> bytes:
    command = [projects.RAI, *words]
    quiet = subprocess.DEVNULL
    return subprocess.run(
        command, check=check, stdout=subprocess.PIPE, stderr=quiet
    ).stdout


def _left() -> set[str]:
    """Return the temporary folders, control groups and processes of runs."""
    folders = {str(path) for path in Path(tempfile.gettempdir()).glob("rai-*")}
    groups = {str(path) for path in Path("/sys/fs/cgroup").glob("**/rai-*")}
    return folders | groups


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
