"""Whether `rai bench` finds a planted slowdown, and none where there is none.

    python -m tools.benchmarks.planted [--times 20] [--folder DIR] [-- its options]

The project's milestone 3.1 runs on a GPU, once against the same files and once against
a naive kernel that computes every twentieth image twice: 5 % more work. The gate is
`op_time>3%`. What each `rai bench` printed is kept in DIR. A case takes up to two
minutes each time; `--case` measures one of the two, so that two GPUs can share them:

    python -m tools.benchmarks.planted --case same -- --gpus GPU-1b2c &
    python -m tools.benchmarks.planted --case slower -- --gpus GPU-77 &

With `--stand-in` a script prints Op Times, with noise, in place of the kernels: that
needs no GPU, tries all but them, and keeps no row.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from tools.benchmarks import projects, rows

FILE = "project/cuda/ladder/naive.cu"
SUM = "    float sum = 0;\n"
TWICE = """\
    float sum = 0;
    for (int more = b % 20 == 0; more >= 0; more--) {
        sum = 0;
"""
STORE = "    y[(((size_t)b * M"
USED = """\
        if (sum == -1.5e38f)  // never; else a compiler may leave out the first time
            y[0] = sum;
    }
"""
SPEC = """\
rai: {{version: 0.2}}
resources: {{gpu: {{count: 1}}, limits: {{time: 30m}}}}
commands:
  build:
    - {{name: m3, run: "python $RAI_SOURCE_DIR/project/m3.1.py {images}"}}
"""
STAND_IN = """\
rai: {{version: 0.2}}
resources: {{limits: {{time: 30m}}}}
commands:
  build:
    - {{name: m3, run: "python $RAI_SOURCE_DIR/timed.py {factor}"}}
"""
TIMED = """\
import random, sys
for layer in (0.010, 0.036):
    print(f"Op Time: {layer * float(sys.argv[1]) * random.gauss(1, 0.005):f}")
print("Correctness: 0.9 Model: ece408")
"""
SLOWER = 1.05
GATE = "op_time>3%"
CASES = {"same": "no change", "slower": "5 % planted"}
LONGEST_S = 600


def main() -> int:
    """Measure both, print a line of each time, and keep a row of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=rows.ROOT / "build" / "planted")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("rai", nargs="*", help="options of `rai bench`")
    words = parser.parse_args()
    if not words.stand_in and not projects.gpu_here():
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made_of = stand_ins if words.stand_in else sides
    with tempfile.TemporaryDirectory(prefix="rai-planted-") as name:
        place = Path(name)
        os.environ.setdefault("RAI_HOME", str(place / "home"))
        before, slower = made_of(place, words.images)
        for case in words.case or CASES:
            after = before if case == "same" else slower
            found: list[dict[str, Any]] = []
            try:
                for one in _times(words, CASES[case], before, after):
                    found.append(one)
            except KeyboardInterrupt:
                return 130
            finally:  # one that is ended early counts for what it has
                _keep(words, CASES[case], found)
    return 0


def _keep(
    words: argparse.Namespace, what: str, found: Sequence[dict[str, Any]]
) -> None:
    if not found:
        return
    row = _row(words, what, found)
    if words.stand_in:
        print(json.dumps(row), flush=True)
    else:
        rows.keep(row)


def sides(place: Path, images: int) -> tuple[Path, Path]:
    """Make the project, and one whose naive kernel takes 5 % longer."""
    made = []
    for name in ("same", "slower"):
        folder = projects.write(place / name, SPEC.format(images=images))
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(
            rows.ROOT / "project", folder / "project", ignore=ignored, symlinks=True
        )
        made.append(folder)
    slower = made[1] / FILE
    slower.write_text(planted(slower.read_text()))
    return made[0], made[1]


def stand_ins(place: Path, _images: int) -> tuple[Path, Path]:
    """Make projects that print Op Times, the other ones 5 % longer."""
    made = [
        projects.write(
            place / name, STAND_IN.format(factor=factor), {"timed.py": TIMED}
        )
        for name, factor in (("same", 1.0), ("slower", SLOWER))
    ]
    return made[0], made[1]


def planted(text: str) -> str:
    """Return the kernel with every twentieth image computed twice."""
    assert text.count(SUM) == 1 and text.count(STORE) == 1, "the kernel is another"
    return text.replace(SUM, TWICE).replace(STORE, USED + STORE)


def _times(
    words: argparse.Namespace, what: str, before: Path, after: Path
) -> Iterator[dict[str, Any]]:
    words.folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, words.times + 1):
        began = perf_counter()
        status, printed, said = _bench(before, after, words.rai)
        took_s = perf_counter() - began
        name = f"{what.replace(' ', '-').replace('%', 'percent')}-{number}"
        (words.folder / f"{name}.json").write_bytes(printed)
        (words.folder / f"{name}.log").write_bytes(said)
        one = _main_figure(printed) | {"exit": status, "took_s": round(took_s, 1)}
        print(what, number, one, flush=True)
        yield one


def _bench(
    before: Path, after: Path, options: Sequence[str]
) -> tuple[int | None, bytes, bytes]:
    """Measure once; the exit status is None if it took too long."""
    command = [projects.RAI, "bench", str(before), str(after), "--json"]
    try:
        done = subprocess.run(
            [*command, "--fail-if", GATE, *options],
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return None, late.stdout or b"", late.stderr or b""
    return done.returncode, done.stdout, done.stderr


def _main_figure(printed: bytes) -> dict[str, Any]:
    """Return what the Op Time came to; empty if there is none."""
    try:
        figures = json.loads(printed)["diff"]["figures"]
    except (ValueError, KeyError):
        return {}
    found = [one for one in figures if one["metric"].startswith("op_time")]
    if not found:
        return {}
    one = found[0]
    kept = ("before", "after", "ratio", "low", "high", "verdict")
    return {name: one[name] for name in kept} | {"pairs": one["n_after"]}


def _row(
    words: argparse.Namespace, what: str, found: Sequence[dict[str, Any]]
) -> dict[str, object]:
    """Return the row: a change that is there is found, and none else."""
    there = what != CASES["same"]
    of = "a stand-in" if words.stand_in else "m3.1"
    right = sum(one["exit"] == (7 if there else 0) for one in found)
    return rows.row(
        f"rai bench of {of}, {what}",
        f"exit {7 if there else 0} in all {len(found)} times",
        right == len(found),
        right=right,
        times=len(found),
        verdicts=[one.get("verdict") for one in found],
        ratios=[one.get("ratio") for one in found],
        pairs=[one.get("pairs") for one in found],
        took_s=[one["took_s"] for one in found],
    )


if __name__ == "__main__":
    sys.exit(main())
