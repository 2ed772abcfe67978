"""The hash of what a row measured: what changes it, and what does not."""

import json
import os
import sys

import pytest
from lab import code_hash
from plans.kernels import VARIANTS

from project.tests import copied
from project.tests.test_results import both, forward, script
from tests.kit.program import run_program

GPU = {"gpu": "NVIDIA H200", "architecture": "sm_90"}
CONV2 = {"B": 10_000, "M": 24, "C": 12, "H": 33, "W": 33, "K": 5}
PRINT = """
import json, sys
from lab import code_hash
print(*map(code_hash.of, json.load(sys.stdin)))
"""


def row(variant, **more):
    kept = both(variant)[1] | {"machine": GPU, "shape": CONV2, "params": {}}
    return kept | {"class": VARIANTS[variant].accuracy, **more}


ROWS = {
    "best": row("best"),
    "tiled": row("tiled"),
    "judged": row("best", what="judged"),
    "forward": forward() | {"machine": GPU},
    "script": script(1.0) | {"machine": GPU},
}


@pytest.fixture
def copy(tmp_path):
    """A copy of the project, and the hashes of all rows there."""
    folder = copied.project(tmp_path, "models")

    def hashes():
        done = run_program(
            [sys.executable, "-c", PRINT],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            input=json.dumps(list(ROWS.values())),
            check=True,
        )
        return dict(zip(ROWS, done.stdout.split(), strict=True))

    return folder, hashes


@pytest.mark.programs
@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        (
            "cuda/hopper/best_split.cu",
            "\n",
            "\n;\n",
            {"best", "judged", "forward", "script"},
        ),
        (
            "cuda/parts/mbarrier.cuh",
            "\n",
            "\n;\n",
            {"best", "judged", "forward", "script"},
        ),
        ("cuda/network/fused_last.cu", "\n", "\n;\n", {"forward"}),
        ("cuda/network/pooling.cu", "\n", "\n;\n", {"script"}),
        (
            "plans/ladder.py",
            'return 4 * (p["TILE"]',
            'return 8 * (p["TILE"]',
            {"tiled"},
        ),
        ("cuda/hopper/best_split.cu", "\n", "\n//\n", set()),
        ("plans/ladder.py", "conv_naive", "conv_other", set()),
        ("gpu/device.py", "Load a kernel", "Load", {*ROWS} - {"judged"}),
        ("gpu/device.py", "The GPU and its memory.", "The GPU.", set()),
        ("gpu/forward.py", "The forward pass", "A pass", {"forward"}),
        ("bench.py", "Time our", "Time", set()),
        ("results.py", "Write RESULTS.md", "Write it", set()),
    ],
)
def test_a_change_of_what_is_measured_changes_the_hash(file, old, new, changed, copy):
    folder, hashes = copy
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))

    here = {name: code_hash.of(kept) for name, kept in ROWS.items()}
    found = hashes()

    assert {name for name in ROWS if found[name] != here[name]} == changed


def test_rows_of_other_code_or_of_none_are_stale():
    fresh = [kept | {"code": code_hash.of(kept)} for kept in ROWS.values()]
    old = ROWS["best"] | {"code": "0"}
    gone = fresh[1] | {"variant": "gone"}

    assert code_hash.stale([*fresh, old, gone, ROWS["tiled"]]) == [
        *(old, gone, ROWS["tiled"])
    ]


@pytest.mark.parametrize(
    ("kept", "command"),
    [
        (ROWS["best"], "project/bench.py --variant best"),
        (row("best", images=100), "project/bench.py --variant best --images 100"),
        (
            row("best", edition="2018fa"),
            "project/bench.py --variant best --edition 2018fa",
        ),
        (row("best", wide=True), "project/bench.py --variant best --wide"),
        (ROWS["forward"], "project/bench.py --forward"),
        (ROWS["script"], "project/bench.py --script"),
        (ROWS["judged"], "-m tools.benchmarks.judge_ladder"),
    ],
)
def test_the_command_that_measures_a_row_again(kept, command):
    assert code_hash.again(kept) == f"python {command}"
