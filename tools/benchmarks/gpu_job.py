"""Measure the milestones on a GPU: the default job, and our kernels at three sizes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.benchmarks import projects, rows

SIZES = (100, 1000, 10_000)
SCRIPTS = ("m3.1.py", "m4.1.py", "final.py")
HEAD, _, _ = (rows.ROOT / "rai_build.yml").read_text().partition("commands:")
SPEC = (
    HEAD
    + """commands:
  build_image: {dockerfile: Dockerfile, target: cpu, gpu_target: full}
  build:
"""
)


def measure() -> Iterator[dict[str, object]]:
    """Run the default job, then each script at each size, both in the image.

    Times of commands are from the record, Op Times from the scripts' output: single
    first calls, as in the course.
    """
    if not projects.gpu_here():
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAI_HOME"] = f"{folder}/home"
        yield _whole(_record(rows.ROOT))
        lines = [
            f"    - python $RAI_SOURCE_DIR/project/{script} {size}\n"
            for size in SIZES
            for script in SCRIPTS
        ]
        spec = SPEC + "".join(lines)
        project = projects.in_own_image(Path(folder, "p"), spec)
        record = _record(project)
        for command in record["commands"]:
            yield from _op_times(command, _gpu(record))


def _whole(record: dict[str, Any]) -> dict[str, object]:
    every = record["commands"]
    commands = {each["text"].split("/")[-1]: each["wall_s"] for each in every}
    took_s = record["ended_at"] - record["created_at"]
    return rows.row(
        "default job on a GPU, docker engine",
        "every milestone exits 0",
        record["exit_code"] == 0 and all(c["outcome"] == "ok" for c in every),
        took_s=round(took_s, 3),
        rai_s=round(took_s - sum(commands.values()), 3),
        commands_s={name: round(wall_s, 3) for name, wall_s in commands.items()},
        correctness=[i.get("correctness") for i in _inferences(every)],
        gpu=_gpu(record),
        way=record["gpu"]["way"],
    )


def _op_times(command: dict[str, Any], gpu: str) -> Iterator[dict[str, object]]:
    """Yield a row for each inference of a script."""
    name, size = command["text"].split("/")[-1].split()
    for number, inference in enumerate(_inferences([command])):
        times = inference["op_times_s"]
        yield rows.row(
            f"{name} {size}, inference {number + 1}",
            "measured",
            command["outcome"] == "ok",
            op_times_s=times,
            sum_s=round(sum(times), 6),
            correctness=inference["correctness"],
            whole_script_s=round(command["wall_s"], 3),
            gpu=gpu,
        )


def _inferences(commands: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for each in commands for one in each["findings"]["inferences"]]


def _gpu(record: dict[str, Any]) -> str:
    name: str = record["gpu"]["gpus"][0]["name"]
    return name


def _record(project: Path) -> dict[str, Any]:
    command = [projects.RAI, "run", "-p", str(project), "--engine", "docker", "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    record: dict[str, Any] = json.loads(done.stdout)
    return record
