"""Whether `rai bench` finds a planted slowdown, and none where there is none.

    python -m benchmarks.planted [--times 20] [--folder DIR] [-- options of rai bench]

The project's milestone 3.1 runs on a GPU, once against the same files and once against
a naive kernel that computes every twentieth image twice: 5 % more work. The gate is
`op_time>3%`. What each `rai bench` printed is kept in DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import projects, rows

FILE = "project/cuda/naive.cu"
SUM = "    float sum = 0;\n"
TWICE = """\
    float sum = 0;
    for (int more = b % 20 == 0; more >= 0; more--) {
        sum = 0;
        asm volatile("" ::: "memory");  // so that all is read again
"""
STORE = "    y[(((size_t)b * M"
SPEC = """\
rai: {{version: 0.2}}
resources: {{gpu: {{count: 1}}, limits: {{time: 30m}}}}
commands:
  build:
    - {{name: m3, run: "python $RAI_SOURCE_DIR/project/m3.1.py {images}"}}
"""
GATE = "op_time>3%"
LONGEST_S = 600


def main() -> int:
    """Measure both, print a line of each time, and keep a row of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=rows.ROOT / "build" / "planted")
    parser.add_argument("rai", nargs="*", help="options of `rai bench`")
    words = parser.parse_args()
    if not projects.gpu_here():
        return 0
    with tempfile.TemporaryDirectory(prefix="rai-planted-") as name:
        place = Path(name)
        os.environ.setdefault("RAI_HOME", str(place / "home"))
        same, slower = sides(place, words.images)
        for what, after in (("no change", same), ("5 % planted", slower)):
            found = list(_times(words, what, same, after))
            rows.keep(_row(what, found))
    return 0


def sides(place: Path, images: int) -> tuple[Path, Path]:
    """Make the project, and one whose naive kernel takes 5 % longer."""
    made = []
    for name in ("same", "slower"):
        folder = projects.write(place / name, SPEC.format(images=images))
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(
            rows.ROOT / "project", folder / "project", ignore=ignored, symlinks=True
        )
        made.append(folder)
    slower = made[1] / FILE
    slower.write_text(planted(slower.read_text()))
    return made[0], made[1]


def planted(text: str) -> str:
    """Return the kernel with every twentieth image computed twice."""
    assert text.count(SUM) == 1 and text.count(STORE) == 1, "the kernel is another"
    return text.replace(SUM, TWICE).replace(STORE, f"    }}\n{STORE}")


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
) -> tuple[int, bytes, bytes]:
    command = [projects.RAI, "bench", str(before), str(after), "--json"]
    done = subprocess.run(
        [*command, "--fail-if", GATE, *options],
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
    )
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


def _row(what: str, found: Sequence[dict[str, Any]]) -> dict[str, object]:
    """Return the row: a change that is there is found, and none else."""
    there = what != "no change"
    right = sum(one["exit"] == (7 if there else 0) for one in found)
    return rows.row(
        f"rai bench of m3.1, {what}",
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
