"""First mistakes, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner import engines
from runner.cli import common, init, main, original
from runner.core import BuildSpec, Command, Place, Reason
from runner.core.errors import EngineError, ImageError, UsageError
from runner.core.work import Secrets
from runner.execution import prepare, validation
from runner.execution.project import build_file
from runner.spec import buildfile, images


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, command: str, image: str = "gcc:12") -> Path:
    rai = f'rai: {{version: 0.2, image: "{image}"}}\n'
    (folder / "rai_build.yml").write_text(f"{rai}commands: {{build: [{command}]}}\n")
    return folder


@pytest.mark.parametrize("name", ["rai_build.yaml", "rai-build.yaml"])
def test_a_build_file_with_another_ending_is_found_and_not_read(project, name):
    (project / name).touch()

    with pytest.raises(UsageError, match=f"a {name}; rename it to rai_build.yml"):
        build_file(project)


def test_a_first_build_file_leaves_the_image_to_a_dockerfile(project):
    (project / "Dockerfile").write_text("FROM scratch\n")

    init.init(project)

    spec, problems = buildfile.parse((project / "rai_build.yml").read_text(), "f")
    assert spec.image is None
    assert problems == []


def test_a_variable_with_two_values_is_refused_and_no_value_shown(monkeypatch):
    monkeypatch.setenv("TOKEN", "first")

    with pytest.raises(UsageError, match="-e TOKEN is given twice") as caught:
        common.variables(["TOKEN", "TOKEN=zzz"])

    assert "zzz" not in str(caught.value)
    assert common.variables(["TOKEN", "TOKEN=first"]) == {"TOKEN": "first"}


def test_a_value_too_short_to_be_masked_is_warned_of(project):
    values = {"N": "5", "PIN": "1234567", "TOKEN": "secret", "NONE": ""}

    prepared = prepare.prepare(
        write(project, "ls"), prepare.Options(secrets=Secrets(values))
    )

    told = [p.message.partition(":")[0] for p in prepared.warnings]
    assert told == ["-e N", "-e PIN"]
    assert "5" not in prepared.warnings[0].message


def test_a_secret_that_stands_in_the_build_file_too_is_warned_of(project):
    values = {"TOKEN": "sesame-open", "OTHER": "another-one", "N": "5"}

    prepared = prepare.prepare(
        write(project, "./get sesame-open 5"), prepare.Options(secrets=Secrets(values))
    )

    told = [str(p) for p in prepared.warnings if "build file" in p.message]
    assert len(told) == 1
    assert told[0].startswith("warning: -e TOKEN: the value is kept with the run")
    assert "sesame" not in told[0]


def test_a_name_that_no_image_can_have_is_an_error_where_an_image_is_needed(project):
    write(project, "ls", image="debian bookworm")

    by_default = validation.validate(project, prepare.Options(engine="auto"))
    local = validation.validate(project, prepare.Options(engine="local"))

    assert by_default.reason is Reason.IMAGE_NOT_FOUND
    assert '"debian bookworm" is not a valid image name' in str(by_default.problems[-1])
    assert local.ok
    with pytest.raises(ImageError):
        images.plan(BuildSpec("f", image="debian bookworm"), None)


def test_a_plan_for_this_machines_programs_has_no_image(project):
    found = validation.validate(write(project, "ls"), prepare.Options(engine="local"))

    assert found.ok
    assert found.image is None
    assert found.without_image == "local"


def test_what_the_bare_engine_refuses_is_wrong_in_the_build_file(project):
    found = validation.validate(
        write(project, "ls /src"), prepare.Options(engine="bare")
    )
    spec = BuildSpec("f", commands=(Command("ls /src", place=Place("f", 1, 1)),))

    with pytest.raises(EngineError) as caught:
        engines.choose("bare", spec, ci=False)

    assert caught.value.reason is Reason.BAD_SPEC
    assert found.reason is Reason.BAD_SPEC
    assert "the command names /src" in found.problems[-1].message


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("sh", "did you mean `rai shell` or `rai show`?"),
        ("submti", "did you mean `rai submit`?"),
        ("rnu", "did you mean `rai run`?"),
        ("own", "`rai run own` runs the project in the folder own"),
        ("frobnicate", "`rai --help` lists the commands"),
    ],
)
def test_an_unknown_command_says_what_may_be_meant(typed, hint, project):
    (project / "own").mkdir()

    assert main.unknown_command(typed, main.COMMANDS).hint == hint


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("--engin", ["--engine"]), ("--ouptut", ["--output"]), ("--time", [])],
)
def test_only_an_option_much_like_the_one_typed_is_offered(typed, offered):
    known = ["--engine", "--keep-going", "--image", "--output"]

    assert main.alike(typed, known) == offered


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["help"], ["--help"]),
        (["help", "run"], ["run", "--help"]),
        (["--engine", "local", "run"], ["run", "--engine", "local"]),
        (["../lab", ""], ["run", "../lab", ""]),
    ],
)
def test_a_word_in_the_wrong_place_still_means_what_it_says(typed, meant):
    assert original.read(typed, main.COMMANDS).words == meant


def test_the_options_known_to_take_a_value_are_those_of_run():
    taking = {
        spelling
        for parameter in main.command("run").params
        if parameter.param_type_name == "option" and not parameter.is_flag
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }

    assert taking - {"--path", "-p", "--output", "-o"} == original.RUNS_WITH_VALUE


def test_a_shells_command_is_told_from_its_run():
    assert original.routed(["shell", "--", "ls"]) == ["shell", "--", "--", "ls"]
    assert original.routed(["shell", "RUN"]) == ["shell", "RUN"]
