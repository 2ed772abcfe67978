"""Have the judge of submissions measure every variant of the registry.

    python -m tools.benchmarks.judge_ladder           # all of it, where there is a GPU
    python -m tools.benchmarks.judge_ladder prepare   # jobs, machine code: nvcc
    python3 -m tools.benchmarks.judge_ladder measure  # needs a GPU and Python only
    python -m tools.benchmarks.judge_ladder keep      # rows into project/measurements/

Some variants of an accuracy class are a submission, which the judge measures for a
limited time, in a folder of its own (below build/ladder, or --folder) that has what a
measure run has: the job, machine code and the judge's files.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "ladder"
SOURCES = ROOT / "project" / "cuda"
CLASSES = ("fp32", "tf32", "half")
AT_ONCE = 6  # variants of a submission
STEPS = ("prepare", "measure", "keep")
LONGEST_S = 600

Json = dict[str, Any]


def job(entries: list[Json], architecture: str, rules: Mapping[str, float]) -> Json:
    """Return the judge's job for entries of a plan.json, all of one class."""
    units: list[Json] = []
    judged = []
    for entry in entries:
        (plan,) = (p for p in entry["plans"] if architecture in p["architectures"])
        convolutions = []
        for convolution in plan["convolutions"]:
            if convolution["unit"] not in units:
                units.append(convolution["unit"])
            unit = units.index(convolution["unit"])
            convolutions.append({**convolution, "unit": unit})
        judged.append({"variant": entry["variant"], "convolutions": convolutions})
    layers = [{"name": c["name"], "shape": c["shape"]} for c in convolutions]
    return {
        "version": 1,
        "milestone": "ladder",
        "class": entries[0]["class"],
        "architecture": architecture,
        "units": units,
        "entries": judged,
        "layers": layers,
        "rules": dict(rules),
        "reference": None,
    }


def planned(architecture: str, out: Path) -> Json:
    """Return the plan.json of all variants for an architecture; write it to a file."""
    names = call(sys.executable, "project/plan.py", "--list").split()
    chosen = [word for name in names for word in ("--final", name)]
    only = ("--architecture", architecture, "--out", str(out))
    out.unlink(missing_ok=True)
    call(sys.executable, "project/plan.py", *chosen, *only)
    found: Json = json.loads(out.read_bytes())
    return found


def prepare(folder: Path, architecture: str) -> None:
    """Write and compile a job for some variants of each class at a time."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan = planned(architecture, folder / "plan.json")
    for accuracy in CLASSES:
        entries = [e for e in plan["milestones"]["final"] if e["class"] == accuracy]
        for first in range(0, len(entries), AT_ONCE):
            some = entries[first : first + AT_ONCE]
            place = folder / f"{accuracy}-{1 + first // AT_ONCE}"
            stage(place, job(some, architecture, {}))
            print(f"{place.name}: compiling {len(some)} variants", flush=True)
            judge(place, "compiling", "compiled")


def stage(place: Path, made: Mapping[str, object]) -> None:
    """Write what the runs of a submission hold into a folder."""
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "runner/judge", place / "runner/judge", ignore=ignored)
    (place / "runner/__init__.py").touch()
    shutil.copytree(SOURCES, place / "team")
    (place / "compiled").mkdir()
    (place / "job.json").write_text(json.dumps(made), encoding="utf-8")


def jobs(folder: Path) -> list[Path]:
    """Return the folders of all submissions."""
    return sorted(path.parent for path in folder.glob("*/job.json"))


def measure(folder: Path) -> bool:
    """Measure each submission; return whether all could be measured."""
    done = []
    for place in jobs(folder):
        print(f"{place.name}: measuring", flush=True)
        (place / "measurement.json").unlink(missing_ok=True)
        judge(place, "measuring", ".", check=False)
        done.append((place / "measurement.json").is_file())
    return bool(done) and all(done)


def judge(place: Path, module: str, out: str, *, check: bool = True) -> None:
    """Run a module of the judge as a run of a submission does."""
    subprocess.run(
        [sys.executable, "-m", f"runner.judge.{module}", "--source", ".", "--out", out],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        timeout=LONGEST_S,
        check=check,
    )


def keep(folder: Path) -> None:
    """Print and append a row of each variant that was measured."""
    sys.path.insert(0, str(ROOT / "project"))
    import judged
    import plan
    from lab import code_hash, ledger

    made_of = plan.read(folder / "plan.json")
    assert made_of is not None
    document, choice = made_of
    plan.check(folder / "plan.json", document, plan.made(choice))
    run = secrets.token_hex(4)
    for place in jobs(folder):
        measured = json.loads((place / "measurement.json").read_bytes())
        for row in judged.rows(measured, choice, run):
            print(row["variant"], row["ms"], row["why"] or "", flush=True)
            out = ledger.file(row["machine"]["gpu"])
            ledger.keep({**row, "code": code_hash.of(row)}, out)


def call(*words: str) -> str:
    """Run a program at the project's top; return what it printed."""
    done = subprocess.run(
        words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def main() -> int:
    """Carry out the named step, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", nargs="?", choices=STEPS, help="(default: all)")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--architecture", default="sm_90", metavar="sm_NN")
    words = parser.parse_args()
    folder = words.folder.resolve()
    if words.step in (None, "prepare"):
        prepare(folder, words.architecture)
    if words.step in (None, "measure") and not measure(folder):
        return 1
    if words.step in (None, "keep"):
        keep(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
