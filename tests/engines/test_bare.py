"""The bare engine.

It carries out a job by the same code as the local engine, which tests/kit/jobs.py is
left to.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runner.cli.init import starter
from runner.core import BuildSpec, Command, DataMount, Place
from runner.engines.bare import BareEngine
from runner.spec import buildfile
from tests.kit.contract import *  # noqa: F403 - the tests are the contract's
from tests.kit.running import Subject, data_file, run

pytestmark = pytest.mark.programs


@pytest.fixture
def subject() -> Subject:
    return Subject(BareEngine())


def test_it_says_that_it_enforces_neither_limits_nor_isolation():
    unenforced = BareEngine().facts().unenforced
    assert {"memory", "pids", "network", "isolation"} <= set(unenforced)


@pytest.mark.parametrize(
    ("line", "variable"),
    [
        ("python /src/m1.1.py", "$RAI_SOURCE_DIR"),
        ("/bin/bash -c 'cd /build && make'", "$RAI_BUILD_DIR"),
        ("cp a /build", "$RAI_BUILD_DIR"),
        ("ls /src", "$RAI_SOURCE_DIR"),
    ],
)
def test_a_command_that_names_a_folder_of_the_sandbox_is_told_its_variable(
    line: str, variable: str
):
    place = Place("rai_build.yml", 9, 7)
    spec = BuildSpec("rai_build.yml", commands=(Command(line, place=place),))
    (problem,) = BareEngine().check(spec)
    assert problem.place == place
    assert problem.hint.startswith(f"write {variable} in its place")
    assert "bubblewrap" in problem.hint


def test_the_file_that_init_writes_is_served():
    spec, problems = buildfile.parse(starter(built=False), "rai_build.yml")
    assert problems == []
    assert BareEngine().check(spec) == []


@pytest.mark.parametrize(
    "line", ["python $RAI_SOURCE_DIR/m1.1.py", "make -C ${HERE}/src", "ls /build-tools"]
)
def test_a_command_that_names_none_is_served(line: str):
    spec = BuildSpec("rai_build.yml", commands=(Command(line),))
    assert BareEngine().check(spec) == []


def test_data_is_found_below_the_data_folder(subject: Subject, tmp_path: Path):
    mount = DataMount("/data/set", (data_file(tmp_path / "x.gz", b"figures"),))
    result = run(subject, ["cat $RAI_DATA_DIR/set/x.gz"], data=[mount])
    assert result.stdout == b"figures"


def test_python_is_the_one_that_runs_rai(subject: Subject):
    script = "python -c 'import msgspec, sys; print(sys.prefix)'"

    assert run(subject, [script]).stdout.decode().strip() == sys.prefix


def test_gnu_time_is_there_where_the_machine_has_none(tmp_path: Path):
    subject = Subject(BareEngine(time=tmp_path / "no-time"))
    result = run(subject, ["/usr/bin/time -f 'took %e' true"])
    assert result.stderr.startswith(b"took 0.")


def test_nothing_is_left_of_a_run(subject: Subject, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    script = "mkdir -p a/b; touch a/b/c; chmod 0 a/b; (setsid sleep 321 &); pwd"
    result = run(subject, [script])
    assert result.stdout.startswith(str(tmp_path / "t").encode())
    assert list((tmp_path / "t").iterdir()) == []
    found = run(subject, ["ps -eo args | grep -c '[s]leep 321'"], keep_going=True)
    assert found.stdout == b"0\n"
