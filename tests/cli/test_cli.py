"""The commands, as a user types them: each a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.program import Forked, rai
from tests.kit.running import long_sleep
from tests.kit.waiting import running

pytestmark = pytest.mark.programs

SPEC = """\
commands:
  build:
    - echo hello
    - {run: "sh -c 'echo oops >&2; echo kept > /build/kept.txt'", name: two}
"""


PROJECT = {"rai_build.yml": SPEC}


def under_way(project: Path) -> Forked:
    """Start a run, and wait for the first line of its program."""
    child = Forked("-p", project, "--engine", "local", stdout=subprocess.PIPE)
    assert child.stdout.readline() == "one\n"
    return child


def end(command: str) -> None:
    """End a program that a run has started."""
    for pid in running(command):
        with suppress(OSError):  # it has ended already
            os.kill(pid, signal.SIGTERM)


@pytest.mark.local
def test_a_run_streams_is_recorded_and_can_be_looked_at_again(project, tmp_path):
    done = rai("-p", project, "--engine", "local")

    assert done.returncode == 0
    assert done.stdout == "hello\n"
    assert "oops\n" in done.stderr
    assert "✱ Running echo hello\n" in done.stderr
    (listed,) = json.loads(rai("history", "--json").stdout)
    assert listed["exit_code"] == 0
    shown = json.loads(rai("show", listed["id"][:4], "--json").stdout)
    assert [c["exit_code"] for c in shown["commands"]] == [0, 0]
    assert shown["commands"][1]["name"] == "two"
    assert rai("show", "latest").stdout.startswith("run")
    logs = rai("logs", "latest")
    assert (logs.stdout, logs.stderr) == ("hello\n", "oops\n")
    pulled = rai("pull", "latest", "-o", tmp_path / "out")
    assert pulled.returncode == 0
    assert (tmp_path / "out" / "kept.txt").read_text() == "kept\n"


@pytest.mark.local
def test_a_run_that_is_under_way_is_in_ps_and_its_logs_can_be_followed(project):
    sleep = long_sleep()
    text = f"commands: {{build: [\"sh -c 'echo one; {sleep}; echo two'\"]}}\n"
    (project / "rai_build.yml").write_text(text)
    child = under_way(project)

    (active,) = json.loads(rai("ps", "--json").stdout)
    follower = Forked("logs", "-f", "latest", stdout=subprocess.PIPE, cwd=project)
    first = follower.stdout.readline()
    end(sleep)
    rest, _ = follower.communicate(timeout=60)

    assert active["state"] == "running"
    assert (first, rest) == ("one\n", "two\n")
    child.communicate()
    assert json.loads(rai("ps", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-p", "nowhere"], 2, "nowhere does not exist"),
        (["run", "--engine", "slurm"], 2, "slurm"),
        (["run", "-p", "a", "-p", "b"], 2, "given twice"),
        (["show", "abc"], 2, "no run 'abc'"),
        (["frobnicate"], 2, "frobnicate"),
        (["image", "biuld"], 2, "did you mean `rai image build`?"),
        (["image", "ls", "-p", "a", "-p", "b"], 2, "--path is given twice"),
        (["run", "--ouptut", "x"], 2, "did you mean `--output`?"),
        (["run", "nowhere"], 2, "nowhere does not exist; name the project's folder"),
        (["run", "a", "-p", "b"], 2, "two projects are given: a and -p b"),
        (["parse", "/nowhere/log"], 2, "/nowhere/log"),
        (["pull", "latest"], 2, "no run yet"),
    ],
)
def test_a_wrong_command_line_is_told_and_ends_with_two(words, status, said, tmp_path):
    done = rai(*words, cwd=tmp_path)

    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_debug_adds_the_traceback(tmp_path):
    done = rai("--debug", "-p", "nowhere", cwd=tmp_path)

    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_validate_tells_all_problems_with_their_places_and_ends_with_two(project):
    text = 'resources: {gpu: {count: two}}\ncommands: {build: ["echo \'open"]}\n'
    (project / "rai_build.yml").write_text(text)

    done = rai("validate", cwd=project)
    told = rai("validate", "--json", cwd=project)

    assert done.returncode == 2
    assert "rai_build.yml:1:26: " in done.stderr
    assert "rai_build.yml:2:" in done.stderr
    assert told.returncode == 2
    found = json.loads(told.stdout)
    assert found["ok"] is False
    assert {p["place"]["line"] for p in found["problems"]} == {1, 2}


def test_validate_shows_the_plan_and_needs_no_docker(project):
    (project / "Dockerfile").touch()

    done = rai("validate", "-p", project, "--json", env={**os.environ, **NO_ENGINE})

    assert done.returncode == 0
    plan = json.loads(done.stdout)
    assert plan["commands"][0]["invocation"]["argv"] == ["echo", "hello"]
    assert plan["commands"][0]["invocation"]["script"] is None


NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere", "PATH": "/nowhere", "CI": "true"}
NEITHER = "the build file names no image and the project has no Dockerfile"


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ("{build: [ls]}", NEITHER),
        ("{build_image: {dockerfile: a/b}, build: [ls]}", "`a/b` does not exist"),
    ],
)
def test_validate_refuses_a_project_that_there_is_no_image_for(commands, said, project):
    (project / "rai_build.yml").write_text(f"commands: {commands}\n")

    done = rai("validate", "-p", project, env={**os.environ, **NO_ENGINE})
    told = rai("validate", "-p", project, "--json", env={**os.environ, **NO_ENGINE})

    assert (done.returncode, told.returncode) == (3, 3)
    assert said in done.stderr.replace("\n", " ")
    assert json.loads(told.stdout)["ok"] is False
    assert said in json.loads(told.stdout)["problems"][-1]["message"]


@pytest.mark.parametrize("engine", ["local", "bare"])
def test_validate_only_warns_where_the_engine_takes_no_image(engine, project):
    (project / "rai_build.yml").write_text("commands: {build: [ls]}\n")
    named = {**os.environ, **NO_ENGINE, "RAI_ENGINE": engine}

    by_option = rai("validate", "-p", project, "--engine", engine)
    by_setting = rai("validate", "-p", project, env=named)

    for done in (by_option, by_setting):
        assert done.returncode == 0
        assert f"warning: {NEITHER}" in done.stderr.replace("\n", " ")


@pytest.mark.local
def test_validate_takes_the_engine_that_a_run_would_take(project):
    environ = {**os.environ, "DOCKER_HOST": "unix:///nowhere"}

    assert rai("validate", "-p", project, env=environ).returncode == 0
    assert rai("run", "-p", project, env=environ).returncode == 0


def test_validate_says_which_commands_need_a_gpu(project):
    (project / "Dockerfile").touch()
    build = "commands: {build: [a, {run: b, needs: gpu}]}\n"
    (project / "rai_build.yml").write_text(f"resources: {{gpu: {{count: 1}}}}\n{build}")

    done = rai("validate", "-p", project)

    told = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert told[-2:] == ["1 direct no shell needed a", "2 direct no shell needed GPU b"]


def test_both_names_of_the_build_file_count(project):
    (project / "rai_build.yml").rename(project / "rai-build.yml")
    (project / "Dockerfile").touch()

    assert rai("validate", "-p", project).returncode == 0


def test_a_dry_run_lists_what_would_be_sent_and_runs_nothing(project):
    (project / "main.c").write_text("int main;")
    (project / "main.o").write_bytes(b"\0")
    (project / ".raiignore").write_text("*.o\n")

    done = rai("run", "--dry-run", "-p", project)

    assert done.returncode == 0
    assert "main.c" in done.stdout
    assert ".raiignore:1" in done.stdout
    assert json.loads(rai("history", "--json").stdout) == []


def test_a_build_file_that_a_link_has_elsewhere_is_not_read(project, tmp_path):
    (tmp_path / "other.yml").write_text("secret: words\n")
    file = project / "rai_build.yml"
    file.unlink()
    file.symlink_to("../other.yml")

    outside = rai("validate", "-p", project)
    file.unlink()
    (project / "real.yml").write_text("commands: {build: [ls]}\nrai: {image: gcc}\n")
    file.symlink_to("real.yml")
    inside = rai("validate", "-p", project)

    assert outside.returncode == 2
    assert "a link leads out of the folder" in outside.stderr
    assert "secret" not in outside.stdout + outside.stderr
    assert inside.returncode == 0, inside.stderr


def test_a_build_file_of_gigabytes_is_not_read_into_memory(project):
    with (project / "rai_build.yml").open("ab") as file:
        file.truncate(64 << 30)

    done = rai("validate", "-p", project)

    assert done.returncode == 2
    assert "rai_build.yml cannot be read: it is larger than" in done.stderr


def test_a_starter_file_is_not_written_through_a_link(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/rai_build.yml").symlink_to("../elsewhere")

    done = rai("init", "-p", tmp_path / "project")

    assert done.returncode == 2
    assert not (tmp_path / "elsewhere").exists()


def test_a_starter_file_is_valid_and_nothing_is_overwritten(tmp_path):
    assert rai("init", cwd=tmp_path).returncode == 0
    assert rai("validate", cwd=tmp_path).returncode == 0

    again = rai("init", cwd=tmp_path)

    assert again.returncode == 2
    assert "exists" in again.stderr


def test_parse_reads_a_file_and_standard_input_alike(tmp_path):
    text = "New Inference\nOp Time: 0.5\nCorrectness: 0.8171 Model: ece408\n"
    (tmp_path / "log").write_text(text)

    by_file = rai("parse", "--json", tmp_path / "log")
    by_pipe = rai("parse", "-", "--json", input=text)

    assert by_file.stdout == by_pipe.stdout
    (inference,) = json.loads(by_file.stdout)["inferences"]
    assert inference["op_times_s"] == [0.5]
    assert inference["correctness"] == 0.8171
    assert inference["model"] == "ece408"
    assert "500.0 ms" in rai("parse", tmp_path / "log").stdout


def test_the_version_is_told():
    assert rai("--version").stdout.startswith("rai 0.")
    assert rai("version").stdout.startswith("rai 0.")


def test_the_doctor_names_every_engine():
    found = json.loads(rai("doctor", "--json").stdout)

    assert {"engine docker", "engine local", "engine bare"} <= {
        f["subject"] for f in found
    }


def test_without_an_engine_the_status_is_eleven_and_the_reason_told(project):
    environ = {**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"}

    done = rai("run", "-p", project, "--engine", "docker", env=environ)

    assert done.returncode == 11
    assert "/nowhere/docker.sock" in done.stderr
    assert "rai doctor" in done.stderr


def test_the_bare_engine_is_told_with_all_that_stood_against_the_others(
    project, tmp_path
):
    (project / "rai_build.yml").write_text("commands: {build: [echo hello]}\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "echo"):
        (programs / name).symlink_to(str(shutil.which(name)))
    nowhere = {"DOCKER_HOST": "unix:///nowhere/docker.sock", "PATH": str(programs)}

    done = rai("run", "-p", project, env={**os.environ, **nowhere, "CI": ""})

    assert done.stdout == "hello\n"
    why = (
        " Why: docker: no Docker Engine listens at unix:///nowhere/docker.sock"
        " (DOCKER_HOST): the socket does not exist; local: no sandbox works on this"
        " machine (bubblewrap: not installed; unshare: not installed)."
        " Not enforced here: "
    )
    assert why in done.stderr.splitlines()[0]


@pytest.mark.parametrize("words", [["ls"], ["build"], ["prune", "--yes"]])
@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"RAI_ENGINE": "local"}, "the local engine has no images"),
        ({"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "/nowhere/docker.sock"),
    ],
)
def test_without_an_engine_that_keeps_images_that_is_said(
    project, words, environ, said
):
    done = rai("image", *words, "-p", project, env={**os.environ, **environ})

    assert (done.returncode, done.stdout) == (11, "")
    assert said in done.stderr


def test_a_mistyped_command_is_told_where_the_module_is_run_too():
    words = [sys.executable, "-m", "runner.cli.main", "rnu"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rai has no command 'rnu'; did you mean `rai run`?\n"
