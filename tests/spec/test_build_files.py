"""Whole build files: ours, and with the marker `data` those that courses have used."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.core import BuildSpec, GpuRequest
from runner.core.errors import SpecError
from runner.spec import buildfile, commandline
from tests.kit import outside
from tests.spec.test_spec import texts

OURS = Path(__file__).parents[1] / "data" / "rai_build"
REAL = outside.path("rai_build")
real = pytest.mark.data


def index(folder: Path) -> list[tuple[str, int, str]]:
    """Return the rows of a folder's INDEX: a name, an exit code, what is said."""
    if not (folder / "INDEX").is_file():
        return [("none.yml", 0, "")]
    rows = (folder / "INDEX").read_text().splitlines()[1:]
    parts = [(*row.split("\t"), "")[:4] for row in rows]
    return [(name, int(code), says) for name, _, code, says in parts]


def read(path: Path) -> tuple[BuildSpec, list[str]]:
    text = buildfile.decode(path.read_bytes(), path.name)
    found, warnings = buildfile.parse(text, path.name)
    return found, [str(warning) for warning in warnings]


def real_file(name: str) -> tuple[BuildSpec, list[str]]:
    return read(REAL / name)


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        *((OURS / name, *row) for name, *row in index(OURS)),
        *(pytest.param(REAL / name, *row, marks=real) for name, *row in index(REAL)),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_a_file_ends_as_its_index_says(path, code, says):
    try:
        found, problems = read(path)
    except SpecError as error:
        assert error.reason.exit_code == code
        problems = [str(problem) for problem in error.problems]
        assert problems[0].startswith(f"{path.name}:")
    else:
        assert code == 0
        assert found.commands or found.build_image
        assert all(commandline.plan(line) for line in texts(found))
    said = says.partition(":")[2].strip()
    assert said in "".join(problems)
    assert bool(problems) == bool(says) or "gpus" in problems[0]


def test_every_build_file_of_ours_is_in_the_index():
    assert {path.name for path in OURS.glob("*.yml")} == {n for n, *_ in index(OURS)}


@pytest.mark.parametrize(
    ("name", "number", "argv"),
    [
        ("course.yml", 1, ("echo", "Building the operator")),
        (
            "course.yml",
            2,
            (
                "/bin/bash",
                "-c",
                "for file in ops/*; do cp -v $file /net/src/.; done",
            ),
        ),
        ("course.yml", 3, ("nice", "-n10", "make", "-C", "/net")),
        ("course.yml", 5, ("nvprof", "--kernels", "::forward:1", "-o")),
        (
            "course.yml",
            6,
            ("nv-nsight-cu-cli", "--section", ".*", "-o", "analysis", "./final"),
        ),
        ("crlf.yml", 2, ("./main", "1000")),
        (
            "folded.yml",
            1,
            ("/bin/sh", "-c", " cp -r /src . && cd ./src && make all && ./check "),
        ),
    ],
)
def test_the_words_of_a_command_are_those_of_the_original(name, number, argv):
    found, _ = read(OURS / name)
    plan = commandline.plan(texts(found)[number - 1])

    assert plan.argv[: len(argv)] == argv
    assert not plan.shell


def test_the_rest_of_a_file_is_as_it_says():
    course, _ = read(OURS / "course.yml")
    built, _ = read(OURS / "build_image.yml")

    assert course.image == "example/network:cuda"
    assert course.gpu == GpuRequest(1, False, "volta")
    assert not course.limits.network
    assert course.cpu_architecture == "amd64"
    assert len(course.commands) == 6
    assert built.build_image.image_name == "example/simulator:9"
    assert built.build_image.no_cache


@real
@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("001.yml", 8), ("004.yml", 5), ("007.yml", 15), ("015.yml", 4)),
        *(("016.yml", 0), ("017.yml", 10), ("019.yml", 6), ("025.yml", 19)),
        *(("027.yml", 6), ("035.yml", 1), ("038.yml", 6), ("040.yml", 5)),
    ],
)
def test_the_commands_of_real_files_are_all_there_and_need_no_shell(name, count):
    found, _ = real_file(name)
    plans = [commandline.plan(line) for line in texts(found)]

    assert len(plans) == count
    assert not any(plan.shell for plan in plans)
