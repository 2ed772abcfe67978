"""Sources of a team are compiled within limits, and what is wrong is said plainly."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.judge import bounded, compiling
from tests.kit.program import run_program
from tests.kit.waiting import until

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "runner.judge.compiling")
KERNEL = """\
#include "size.cuh"
extern "C" __global__ void twice(float *y) { y[threadIdx.x] *= FACTOR + SIZE; }
"""
Values = dict[str, object]


@dataclass(frozen=True)
class Ended:
    """What a compile run left."""

    code: int
    said: str
    units: list[Values]
    out: Path


Compile = Callable[..., Ended]


@pytest.fixture
def compile_job(tmp_path: Path) -> Compile:
    """Return a function that compiles files, called as the run calls it."""

    def start(units: list[Values], **files: str) -> Ended:
        source, out = tmp_path / "src", tmp_path / "build"
        out.mkdir()
        (source / "team").mkdir(parents=True, exist_ok=True)
        (source / "job.json").write_text(json.dumps({"units": units}))
        for name, text in files.items():
            (source / "team" / name.replace("_", ".")).write_text(text)
        done = run_program(
            [*COMMAND, "--source", str(source), "--out", str(out)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=100,
        )
        written = out / "compiled.json"
        units = json.loads(written.read_text())["units"] if written.exists() else []
        return Ended(done.returncode, done.stderr, units, out)

    return start


def unit(file: str = "twice.cu", target: str = "sm_90", **defines: object) -> Values:
    return {"file": file, "target": target, "defines": defines}


@pytest.mark.kernels
def test_each_unit_becomes_a_file_of_machine_code(compile_job: Compile):
    ended = compile_job(
        [unit(FACTOR=2), unit(target="sm_90a", FACTOR=-3)],
        twice_cu=KERNEL,
        size_cuh="#define SIZE 7\n",
    )

    assert (ended.code, ended.said) == (0, "")
    assert [u["cubin"] for u in ended.units] == ["0.cubin", "1.cubin"]
    assert all(u["ok"] and u["log"] == "" for u in ended.units)
    for number in range(2):
        made = (ended.out / f"{number}.cubin").read_bytes()
        assert made.startswith(b"\x7fELF")


@pytest.mark.kernels
def test_a_unit_that_does_not_compile_is_said_and_the_others_are_made(
    compile_job: Compile,
):
    ended = compile_job(
        [unit("wrong.cu"), unit(FACTOR=1)],
        twice_cu=KERNEL,
        size_cuh="#define SIZE 7\n",
        wrong_cu="int f() { return no_such_name; }\n",
    )

    assert ended.code == 1
    assert [u["ok"] for u in ended.units] == [False, True]
    first, *others = ended.said.splitlines()
    assert first == "project/cuda/wrong.cu (sm_90): nvcc exited with status 1"
    assert others[0].startswith("project/cuda/wrong.cu(1): error: identifier")
    assert str(ended.out.parent) not in ended.said
    assert not (ended.out / "0.cubin").exists()


@pytest.mark.kernels
def test_a_file_that_never_ends_is_refused_where_memory_ends(compile_job: Compile):
    ended = compile_job([unit()], twice_cu='#include "/dev/zero"\n')

    assert ended.code == 1
    assert "out of memory" in ended.said


@pytest.mark.kernels
def test_of_endless_warnings_only_the_beginning_is_kept(compile_job: Compile):
    warnings = "".join(f"#warning {'x' * 900} {n}\n" for n in range(1000))
    ended = compile_job([unit()], twice_cu=f"{warnings}\n#error stop\n")

    assert ended.code == 1
    assert ended.said.endswith("[cut]\n")
    assert len(ended.said) < compiling.MOST_SAID + 200


def test_links_and_absent_files_are_no_sources(tmp_path: Path):
    (tmp_path / "real.cu").touch()
    (tmp_path / "link.cu").symlink_to("real.cu")
    (tmp_path / "away").symlink_to("/")
    os.mkfifo(tmp_path / "fifo.cu")

    assert compiling.unsuitable(tmp_path, "real.cu") is None
    assert compiling.unsuitable(tmp_path, "none.cu") == "no such file"
    for name in ("link.cu", "fifo.cu", "away/etc/passwd"):
        assert compiling.unsuitable(tmp_path, name) == "not a regular file"


@pytest.mark.parametrize(
    "bad",
    [
        unit("../judge.cu"),
        unit("/src/team/a.cu"),
        unit("-optf.cu"),
        unit("a b.cu"),
        unit("$(id).cu"),
        unit("a.cuh"),
        unit("a.cu\n"),
        unit(target="sm_90 -x"),
        unit(target="compute_90"),
        unit(A="1 -include /etc/passwd"),
        unit(A=True),
        {**unit(), "defines": {"A B": 1}},
        {**unit(), "defines": ["-DA"]},
        "a.cu",
    ],
)
def test_no_option_of_the_compiler_comes_from_a_job(bad: object):
    with pytest.raises(compiling.BadJob):
        compiling.units_of({"units": [bad]})


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path):
    bounds = bounded.Bounds(seconds=0.3)
    child = tmp_path / "child"
    argv = ["sh", "-c", f"sleep 60 & echo $! >{child}; echo started; wait"]
    ended = bounded.run(argv, tmp_path, bounds)

    assert (ended.status, ended.output) == (None, "started\n")
    state = Path(f"/proc/{int(child.read_text())}/stat")

    def gone() -> bool:
        try:
            return state.read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    until(gone, "what it had started goes on")


def test_compilers_get_no_options_from_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-x")
    assert "NVCC" not in bounded.run(["env"], tmp_path).output
