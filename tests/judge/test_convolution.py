"""A team's convolution on the CPU is called apart; all that it returns is checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.judge import building, cases, checking, inputs
from tests.kit.kept import kept
from tests.kit.program import run_program

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {
    "conv1": {"B": 5, "M": 12, "C": 1, "H": 30, "W": 30, "K": 5},
    "conv2": {"B": 5, "M": 24, "C": 12, "H": 13, "W": 13, "K": 5},
}
LAYERS = [{"name": name, "shape": shape} for name, shape in SHAPES.items()]
JOB = {"milestone": "m2", "class": "fp32", "layers": LAYERS}
DIRECT = """\
#include "convolution.h"
#include <cstdio>
#include <cstdlib>
void rai_convolve(float *y, const float *x, const float *k, int B, int M, int C, int H,
                  int W, int K, int) {
    BEFORE
    const int R = H - K + 1, S = W - K + 1;
    for (int b = 0; b < IMAGES; b++)
        for (int m = 0; m < M; m++)
            for (int h = 0; h < R; h++)
                for (int w = 0; w < S; w++) {
                    TYPE sum = 0;
                    for (int c = 0; c < C; c++)
                        for (int p = 0; p < K; p++)
                            for (int q = 0; q < K; q++)
                                sum += TYPE(x[((b * C + c) * H + h + p) * W + w + q]) *
                                       TYPE(k[((m * C + c) * K + p) * K + q]);
                    y[((b * M + m) * R + h) * S + w] = sum;
                }
    AFTER
}
"""


LARGE_LEFT_OUT = (
    "for (long i = 0; i < (long)B * C * H * W; i++) if (x[i] > 1e4) return;"
)


def direct(before="", after="", kind="float", number="B") -> str:
    text = DIRECT.replace("BEFORE", before).replace("AFTER", after)
    return text.replace("TYPE", kind).replace("IMAGES", number)


def options(source: Path, out: Path) -> list[str]:
    return ["--source", str(source), "--out", str(out)]


@dataclass(frozen=True)
class Place:
    """The folders of a submission's four runs."""

    source: Path
    out: Path

    def entry(self) -> dict:
        """Check what was played, and return the outcome's only entry."""
        assert checking.main(options(self.source, self.out)) == 0
        outcome = json.loads((self.out / "measurement.json").read_text())
        assert (outcome["milestone"], outcome["gpu"]) == ("m2", None)
        (entry,) = outcome["entries"]
        assert entry["accepted"] == entry["correct"] == (entry["why"] == [])
        return entry

    @property
    def played(self) -> Path:
        return self.source / "played"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make up the inputs of a submission, once for all that only read them."""
    source = tmp_path_factory.mktemp("drawn")
    (source / "inputs").mkdir()
    (source / "job.json").write_text(json.dumps(JOB))
    while True:
        assert inputs.main(options(source, source / "inputs")) == 0
        if holds_large_values(source / "inputs"):
            return source


@pytest.fixture(scope="module")
def program(builds: Path) -> Path:
    """Compile the comparison, once for all that check by it."""
    parts = (building.HOST / "check.cpp", Path(checking.__file__))
    return kept(builds, parts, checking.compiled) / "check"


@pytest.fixture
def place(tmp_path: Path, drawn: Path) -> Place:
    """Lay out a submission whose inputs were made up."""
    place = Place(tmp_path / "src", tmp_path / "build")
    shutil.copytree(drawn, place.source)
    for folder in ("team", "program", "played"):
        (place.source / folder).mkdir()
    place.out.mkdir()
    return place


def holds_large_values(folder: Path) -> bool:
    """Return whether the first case of wide values has what LARGE_LEFT_OUT skips."""
    for number, case in enumerate(cases.read(folder)):
        if case.kind == "wide":
            return max(array("f", (folder / f"{number}.x").read_bytes())) > 1e4
    raise AssertionError("no case has values of widely different size")


@pytest.fixture
def play(
    place: Place, program: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], tuple[int, str]]:
    """Return a function that compiles a source and plays it, as runs do."""
    monkeypatch.setattr(checking, "compiled", lambda _: program)

    team = place.source / "team" / building.SOURCE

    def step(name: str, out: Path) -> None:
        command = (sys.executable, "-m", f"runner.judge.{name}")
        run_program(
            [*command, *options(place.source, out)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=100,
            check=True,
        )

    def start(text: str) -> tuple[int, str]:
        team.write_text(text)
        parts = (team, building.HOST / "convolution.h", Path(building.__file__))
        try:
            made = kept(builds, parts, lambda folder: step("building", folder))
            shutil.copy(made / building.LIBRARY, place.source / "program")
            step("playing", place.played)
        except subprocess.CalledProcessError as error:
            return error.returncode, error.stderr
        return 0, ""

    return start


@pytest.mark.cpp
def test_the_shipped_convolution_is_right_and_every_output_is_looked_at(place, play):
    assert play((ROOT / "project/cpp/convolution.cpp").read_text()) == (0, "")

    entry = place.entry()

    listed = cases.read(place.source / "inputs")
    assert entry["correct"], entry["why"]
    assert entry["checked"] == {
        "calls": len(listed),
        "values": sum(case.y_count for case in listed),
    }
    assert {case.kind for case in listed} == set(inputs.KINDS)
    assert entry["error"] < 1


@pytest.mark.cpp
def test_sums_in_any_order_are_right(place, play):
    assert play(direct()) == (0, "")
    assert place.entry()["correct"]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        (direct(number="B - 1"), {"image": 4, "map": 0, "row": 0, "column": 0}),
        (
            direct(after="y[R * S + S + 2] *= 1.001f;"),
            {"map": 1, "row": 1, "column": 2},
        ),
        (direct(kind="_Float16"), {"layer": "conv1", "inputs": "normal"}),
        (direct(before="if (y[0] == y[0]) return;", number="0"), {"found": "nan"}),
        (direct(after="y[0] = 1 / 0.f;"), {"found": "inf"}),
        (direct(before="if (H != W) return;"), {"layer": "single_weights"}),
        (direct(before=LARGE_LEFT_OUT), {"inputs": "wide"}),
    ],
    ids=["one image less", "a little off", "half", "nothing", "inf", "square", "sizes"],
)
@pytest.mark.cpp
def test_the_first_wrong_output_is_told(place, play, source, where):
    code, said = play(source)
    assert code == 0, said

    entry = place.entry()

    assert not entry["correct"]
    assert where.items() <= entry["wrong"].items()
    assert "expected" in entry["why"][0]


@pytest.mark.cpp
def test_what_was_written_to_x_and_k_does_not_count(place, play):
    spoil = "for (int i = 0; i < B * C * H * W; i++) const_cast<float *>(x)[i] = 0;"
    assert play(direct(before=spoil))[0] == 0
    assert not place.entry()["correct"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("*(volatile int *)8 = 1;", "it was ended by SIGSEGV"),
        ("std::exit(3);", "it exited with status 3"),
        ("std::abort();", "it was ended by SIGABRT"),
    ],
)
@pytest.mark.cpp
def test_a_call_that_fails_is_named(play, body, why):
    code, said = play(direct(before=body))

    last = said.splitlines()[-1]
    assert (code, last) == (1, f"rai_convolve failed for conv1 (normal values): {why}")


@pytest.mark.cpp
def test_a_source_that_is_wrong_is_told_with_its_line(play):
    code, said = play("#include <nothing.h>\n")
    assert code == 1
    first, second, *_ = said.splitlines()
    assert first == "project/cpp/convolution.cpp: g++ exited with status 1"
    assert second.startswith("project/cpp/convolution.cpp:1:10: fatal error: nothing.h")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _short(path: Path) -> None:
    path.write_bytes(b"1234")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_fifo, "it is not a regular file"),
        (_link, "it is not a regular file"),
        (Path.mkdir, "it is not a regular file"),
        (_sparse, "it has 1,099,511,627,776 bytes; expected 162,240"),
        (_short, "it has 4 bytes; expected 162,240"),
        (lambda path: None, "it was not written"),
    ],
)
def test_a_y_that_is_no_file_of_its_size_is_refused_unread(place, spoil, why):
    spoil(place.played / "0.y")
    case, *_ = cases.read(place.source / "inputs")

    found = checking.compare(Path("/no/program/reads/it"), place.source, 0, case)

    assert found.why == f"y of conv1 (normal values): {why}"


def test_inputs_differ_each_time(place, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    assert inputs.main(options(place.source, again)) == 0
    ours = place.source / "inputs"
    assert (again / "0.x").read_bytes() != (ours / "0.x").read_bytes()
    assert (again / "0.x").stat().st_size == (ours / "0.x").stat().st_size


def test_the_header_that_a_team_includes_is_the_project_s():
    ours = ROOT / "project" / "cpp" / "convolution.h"
    assert (building.HOST / "convolution.h").read_text() == ours.read_text()
