"""An earlier run again: its files, build file, image and engine, and what differed."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.store.paths import RunPaths
from tests.kit.program import rai

SPEC = """\
commands:
  build:
    - sh -c 'cat $RAI_SOURCE_DIR/note.txt; cp $RAI_SOURCE_DIR/note.txt $RAI_BUILD_DIR'
"""


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAI_ENGINE", "bare")


PROJECT = {"rai_build.yml": SPEC, "note.txt": "first\n"}


def first_run(project: Path, engine: str = "bare") -> dict[str, Any]:
    done = rai("run", "-p", project, "--engine", engine, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def folder(home: Path, run: dict[str, Any]) -> RunPaths:
    return RunPaths(home / "rai" / "runs" / run["id"])


def test_a_replay_runs_what_was_packed_whatever_the_project_holds_by_now(
    project, tmp_path
):
    first = first_run(project)
    (project / "note.txt").write_text("second\n")
    (project / "rai_build.yml").write_text("nonsense")

    done = rai("replay", first["id"], "-o", tmp_path / "out")

    assert (done.returncode, done.stdout) == (0, "first\n")
    assert "before  run " + first["id"] in done.stderr
    assert "verdict  not enough samples" in done.stderr
    assert (tmp_path / "out" / "note.txt").read_text() == "first\n"
    shown = json.loads(rai("show", "latest", "--json").stdout)
    assert shown["replays"] == first["id"]
    assert shown["archive_sha256"] == first["archive_sha256"]
    assert f"replay of     {first['id']}\n" in rai("show", "latest").stdout


def test_the_exit_status_is_that_of_the_new_run_and_what_differed_is_told(
    project, tmp_path
):
    flag = tmp_path / "flag"
    (project / "rai_build.yml").write_text(f"commands: {{build: ['test ! -e {flag}']}}")
    first = first_run(project)
    flag.touch()

    done = rai("replay", first["id"], "--json")

    assert done.returncode == 1
    new = json.loads(done.stdout)
    assert (new["replays"], new["exit_code"]) == (first["id"], 1)
    assert [(d["what"], d["before"], d["after"]) for d in new["differences"]] == [
        ("reason", "done", "command_failed"),
        ("command 1", "ok, exit 0", "failed, exit 1"),
    ]
    told = " ".join(rai("replay", first["id"]).stderr.split())
    assert f"1 test ! -e {flag} ok, exit 0 failed, exit 1" in told


def test_a_replay_has_the_options_of_the_earlier_run(project):
    (project / "rai_build.yml").write_text("commands: {build: ['false', echo on]}")
    first = rai("run", "-p", project, "--engine", "bare", "--keep-going", "--json")

    done = rai("replay", "latest", "--json")

    assert first.returncode == done.returncode == 1
    assert json.loads(done.stdout)["commands"][1]["outcome"] == "ok"


@pytest.mark.parametrize(
    ("lost", "damage", "said"),
    [
        ("parcel.json", "removed", "parcel.json"),
        ("parcel.json", "cut", "parcel.json"),
        ("source.tar.zst", "removed", "source.tar.zst"),
        ("source.tar.zst", "cut", "the packed project is damaged"),
    ],
)
def test_a_parcel_that_is_missing_or_damaged_is_told_and_ends_with_two(
    lost, damage, said, project, home
):
    first = first_run(project)
    file = folder(home, first).root / lost
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        file.unlink()

    done = rai("replay", first["id"])

    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_engine_of_the_earlier_run_must_be_here_or_another_be_chosen(project):
    first = first_run(project)
    without = {"PATH": "/nowhere", "DOCKER_HOST": "tcp://127.0.0.1:1"}
    environment = {**os.environ, **without}
    path = rai("show", first["id"], "--json").stdout
    assert json.loads(path)["engine"]["name"] == "bare"

    done = rai("replay", first["id"], "--engine", "docker", env=environment)

    assert done.returncode == 11
    assert (
        f"run {first['id']} cannot be run again with the docker engine" in done.stderr
    )
    assert "--engine auto" in done.stderr


@pytest.mark.parametrize(
    "words", [[], pytest.param(["--engine", "auto"], marks=pytest.mark.local)]
)
def test_a_record_alone_makes_nobody_run_without_isolation(project, monkeypatch, words):
    first = first_run(project)
    monkeypatch.delenv("RAI_ENGINE")

    done = rai("replay", first["id"], *words, "--json")

    if words:
        assert json.loads(done.stdout)["engine"]["name"] != "bare"
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert "ran without isolation" in done.stderr
        assert "--engine bare" in done.stderr


def test_a_record_that_calls_no_isolation_one_makes_nobody_run_so(project, monkeypatch):
    first = first_run(project)
    monkeypatch.delenv("RAI_ENGINE")
    record = Path(os.environ["RAI_HOME"], "runs", first["id"], "record.json")
    text = record.read_text()
    assert '"confines": false' in text
    record.write_text(text.replace('"confines": false', '"confines": true'))

    done = rai("replay", first["id"], "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "ran without isolation" in done.stderr


SECRET = """\
commands:
  build_image:
    args: {credentials: hunter2}
  build: [echo hello]
"""


def test_a_masked_value_must_be_given_again_and_is_masked_again(
    project, home, monkeypatch
):
    (project / "rai_build.yml").write_text(SECRET)
    first = first_run(project)
    assert "hunter2" not in folder(home, first).parcel.read_text()

    refused = rai("replay", first["id"])
    unknown = rai("replay", first["id"], "-e", "credentials=a", "-e", "other=b")
    done = rai("replay", first["id"], "-e", "credentials=hunter2", "--json")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "-e credentials=VALUE" in refused.stderr
    assert unknown.returncode == 2
    assert "other is not a masked value" in unknown.stderr
    assert done.returncode == 0, done.stderr
    again = folder(home, json.loads(done.stdout))
    assert "hunter2" not in again.parcel.read_text() + again.spec.read_text()
    monkeypatch.setenv("credentials", "hunter2")
    assert rai("replay", first["id"], "-e", "credentials").returncode == 0


def test_data_that_was_not_packed_is_found_in_the_projects_folder(project):
    (project / ".raiignore").write_text("data/\n")
    (project / "data").mkdir()
    (project / "data" / "words.txt").write_text("one\n")
    (project / "rai_build.yml").write_text(
        "resources: {dataresources: [{mount: /data,"
        " source: {url: 'http://127.0.0.1:1/words.txt'}}]}\n"
        "commands: {build: [echo hello]}\n"
    )
    first = first_run(project)
    (project / "data" / "words.txt").write_text("two\n")

    done = rai("replay", first["id"], "--json")

    assert done.returncode == 0, done.stderr
    (difference,) = json.loads(done.stdout)["differences"]
    assert difference["what"] == "data /data/words.txt"
    assert difference["before"] != difference["after"]


def image(client: docker.APIClient, name: str, says: str) -> str:
    """Build an image that says something; return its id."""
    text = (
        f"FROM debian:bookworm-slim\nLABEL rai-test={name}\nRUN echo {says} > /said\n"
    )
    list(client.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True))
    return str(client.inspect_image(name)["Id"])


@pytest.mark.slow
@pytest.mark.docker
def test_a_replay_starts_from_the_very_image_and_refuses_where_it_is_gone(
    project, client, name
):
    text = f"rai: {{image: '{name}'}}\ncommands: {{build: [cat /said]}}\n"
    (project / "rai_build.yml").write_text(text)
    before = image(client, name, "before")
    first = first_run(project, "docker")
    image(client, name, "after")

    done = rai("replay", first["id"], "--json")

    assert done.returncode == 0, done.stderr
    new = json.loads(done.stdout)
    assert new["image"]["digest"] == before == first["image"]["digest"]
    assert "before" in done.stderr.splitlines()

    client.remove_image(before, force=True)
    done = rai("replay", first["id"])

    assert done.returncode == 3, done.stderr
    assert f"used the image {name} ({before})" in done.stderr
    assert "no longer has and cannot pull" in done.stderr


@pytest.mark.slow
@pytest.mark.docker
def test_an_image_that_rai_built_and_that_is_gone_is_built_again_and_said(
    project, client, name
):
    (project / "Dockerfile").write_text(
        f"FROM debian:bookworm-slim\nLABEL rai-test={name}\nCOPY note.txt /said\n"
    )
    (project / "rai_build.yml").write_text("commands: {build: [cat /said]}\n")
    first = first_run(project, "docker")
    (project / "note.txt").write_text("second\n")

    same = json.loads(rai("replay", first["id"], "--json").stdout)
    client.remove_image(first["image"]["digest"], force=True)
    done = rai("replay", first["id"], "--json")

    assert same["image"]["digest"] == first["image"]["digest"]
    assert done.returncode == 0, done.stderr
    new = json.loads(done.stdout)
    assert new["image"]["reference"] == first["image"]["reference"]
    assert f"the image of run {first['id']}" in "".join(new["warnings"])
    assert "first" in done.stderr.splitlines()
