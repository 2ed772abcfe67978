"""Run public projects of the course as they are; write what came of them by edition.

    python -m tools.benchmarks.museum FOLDER [--most N] [--seconds S]
    python -m tools.benchmarks.museum         # only write the page

FOLDER has a folder of each project. It runs N of MXNet and N of Mini-DNN: those whose
files have the smallest SHA-256, as good as a random choice. A row in museum.jsonl has
this hash, the image's reference and figures, and no name; a project with a row is not
run again with the same image. docs/museum.md shows the last row of each project.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import yaml

from runner.core import Outcome, RunRecord
from runner.figures import table
from runner.figures.printed import WRONG
from tools.benchmarks import rows
from tools.benchmarks.projects import RAI

ROWS = Path(__file__).with_name("museum.jsonl")
PAGE = rows.ROOT / "docs" / "museum.md"
MEASURED = rows.ROOT / "project" / "measurements" / "nvidia-h200.jsonl"
EDITIONS = {  # by a part of the image's name; the first that fits
    "2017fa": "2017fa",
    "2018sp": "2018sp",
    "2019sp": "2019sp",
    "fa19": "2019fa",
    "ece408_mxnet": "2018fa",
    "fa20": "Mini-DNN, 2020",
    "minidnn": "Mini-DNN, 2021 to 2023",
}
RUNGS = ("naive", "tiled", "implicit_gemm", "best")
IMAGES = 10_000
NEAR = 0.002  # of accuracies: halves may decide otherwise
ON_CPU = re.compile(r"\bm(?:1(?:\.[12])?|2\.1)(?:\.py)?\b")
ON_CPU_2020 = re.compile(r"\bm[12]\b")
MAKES = re.compile(r"\bmake\b|\bbuild\.sh\b")

Json = dict[str, Any]


def found(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield edition, hash and folder of each project of the course."""
    for top in sorted(folder.iterdir()):
        for spec in sorted({*top.glob("rai_build.yml"), *top.glob("*/rai_build.yml")}):
            try:
                image = str(yaml.safe_load(spec.read_text())["rai"]["image"])
            except (yaml.YAMLError, LookupError, TypeError, ValueError):
                continue
            known = [EDITIONS[part] for part in EDITIONS if part in image]
            if known:
                yield known[0], hashed(spec.parent), spec.parent
                break


def hashed(folder: Path) -> str:
    """Return the SHA-256 of a folder's files and their names, without .git."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not path.is_symlink() and ".git" not in name.parts:
            found.update(f"{name}\0{path.stat().st_size}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def family(edition: str) -> str:
    """Return the image that an edition's projects run in."""
    return "minidnn" if edition.startswith("Mini") else "course"


def chosen(folder: Path, most: int) -> list[tuple[str, str, Path]]:
    """Return the projects of each family with the smallest hashes."""
    taken: Counter[str] = Counter()
    every = {each[1]: each for each in found(folder)}  # forks may have the same files
    some = []
    for _, (edition, project, place) in sorted(every.items()):
        taken[family(edition)] += 1
        if taken[family(edition)] <= most:
            some.append((edition, project, place))
    return some


def rai(*words: str) -> subprocess.CompletedProcess[bytes]:
    """Run rai; return what it printed."""
    return subprocess.run([RAI, *words], capture_output=True, check=False)


def run(place: Path) -> RunRecord | None:
    """Run a project as it is; return its record, or None if rai refused it."""
    done = rai("run", "-p", str(place), "--engine", "docker", "--json")
    try:
        return msgspec.json.decode(done.stdout, type=RunRecord)
    except msgspec.DecodeError:
        print(done.stderr.decode(errors="replace")[-1000:], flush=True)
        return None


def row(edition: str, project: str, record: RunRecord) -> Json:
    """Return what came of a project's run, without a name of it."""
    cpu = ON_CPU_2020 if edition.endswith("2020") else ON_CPU
    mistakes = [c.findings.mistake for c in record.commands if c.findings.mistake]
    forward = {text.split(":")[0] for text in mistakes if text.startswith("forward()")}
    accuracies, times = {}, []
    for network in table.networks(record):
        line = record.commands[network.number - 1].text
        numbers = [int(word) for word in re.findall(r"\b\d\d+\b(?![.\d])", line)]
        images = network.images or next(iter(numbers), IMAGES)
        right = network.correctness if network.accuracy is None else network.accuracy
        if right is None or network.op_time_s is None:  # nothing of the project's own
            continue
        accuracies[f"{network.model or 'accuracy'} {images}"] = right
        if images == IMAGES and not network.under and not cpu.search(line):
            times.append(1000 * network.op_time_s.median)
    made = {c.outcome for c in record.commands if MAKES.search(c.text)}
    gpus = record.gpu.gpus if record.gpu else ()
    return {
        "project": project,
        "image": record.image.reference if record.image else "",
        "edition": edition,
        "gpu": gpus[0].name if gpus else None,
        "failed": sum(c.outcome is not Outcome.OK for c in record.commands),
        "compiled": made == {Outcome.OK},
        "told": sorted(forward) or ["compiler"] * bool(mistakes),
        "accuracies": accuracies,
        "op_ms": round(min(times), 3) if times else None,
        "seconds": round(sum(c.wall_s or 0 for c in record.commands), 1),
    }


def kept() -> list[Json]:
    """Return all rows."""
    text = ROWS.read_text() if ROWS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def run_missing(folder: Path, most: int, seconds: float) -> None:
    """Run what has no row, until the time is over."""
    until = time.monotonic() + seconds
    have = {(each["project"], each["image"]) for each in kept()}
    images: dict[str, str] = {}  # built where there are none
    for edition, project, place in chosen(folder, most):
        if (of := family(edition)) not in images:
            images[of] = rai("image", "build", "-p", str(place)).stdout.decode().strip()
        if (project, images[of]) in have:
            continue
        record = run(place)
        if record is None or record.image is None:
            continue
        measured = json.dumps(row(edition, project, record))
        print(measured, flush=True)
        with ROWS.open("a") as file:
            file.write(f"{measured}\n")
        if time.monotonic() > until:
            print("the time is over; the next call goes on", flush=True)
            return


def right(every: list[Json]) -> dict[str, bool]:
    """Return of each project whether it printed accuracies, and none is another's.

    Others of its edition, with the same model and number of images, decide.
    """
    usual: dict[tuple[str, str], Counter[float]] = {}
    for each in every:
        if not each["told"]:
            for what, accuracy in each["accuracies"].items():
                key = each["edition"], what
                usual.setdefault(key, Counter())[accuracy] += 1
    return {
        each["project"]: bool(each["accuracies"])
        and not each["told"]
        and all(
            abs(accuracy - usual[each["edition"], what].most_common(1)[0][0]) <= NEAR
            for what, accuracy in each["accuracies"].items()
        )
        for each in every
    }


def page(every: list[Json], measured: Iterable[Json]) -> str:
    """Return docs/museum.md."""
    every = list({each["project"]: each for each in every}.values())
    well = right(every)
    lines = []
    for edition in EDITIONS.values():
        some = [each for each in every if each["edition"] == edition]
        times = [e["op_ms"] for e in some if e["op_ms"] and well[e["project"]]]
        told = Counter(word for each in some for word in each["told"])
        if some:
            lines.append(
                [
                    *(edition, len(some), sum(each["compiled"] for each in some)),
                    sum(not each["failed"] for each in some),
                    sum(well[each["project"]] for each in some),
                    *(told["forward() is the template"], told[WRONG]),
                    *(f"{f(times):.3g} ms" if times else "–" for f in (min, median)),
                ]
            )
    rungs = [
        f"`{each['variant']}` {each['ms']:.3g} ms"
        for each in measured
        if (each["what"], each["edition"]) == ("judged", "2019fa")
        and each["variant"] in RUNGS
    ]
    return TEXT.format(
        total=len(every),
        gpu=" and ".join(sorted({each["gpu"] for each in every if each["gpu"]})),
        table="\n".join(f"| {' | '.join(map(str, line))} |" for line in lines),
        rungs=", ".join(rungs),
    )


TEXT = """\
# Old projects, run again

What `rai run` makes of {total} public projects of UIUC's ECE408, unchanged, on
{gpu}, each with the last image that ran it. The hash of their files chose them.
[images.md](images.md#images-that-are-gone) says what they run in.

| edition | projects | compile | all runs | right | template | wrong | least | median |
|---|---|---|---|---|---|---|---|---|
{table}

* all runs: every command of the build file ends with 0.
* right: what ran of the project's own prints the accuracy that most of its edition
  print, and the image finds no output that is not the formula's. The rest fail,
  are templates or wrong, or have a build file that runs nothing of theirs.
* least, median: Op Times of both layers for 10,000 images on the GPU, at the first
  call, of those that are right. Until spring 2021 Mini-DNN's include copies; later ones
  leave out what a project computes before, which some do.
* rai's kernels for 2019fa, without copies: {rungs}
  ([RESULTS.md](../project/RESULTS.md)).

`python -m tools.benchmarks.museum FOLDER` runs the projects of a folder and writes it.
"""


def main() -> int:
    """Run what is missing; write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--most", type=int, default=24, help="projects of a family")
    parser.add_argument("--seconds", type=float, default=3600)
    words = parser.parse_args()
    if words.folder:
        run_missing(words.folder, words.most, words.seconds)
    measured = map(json.loads, MEASURED.read_text().splitlines())
    PAGE.write_text(page(kept(), measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
