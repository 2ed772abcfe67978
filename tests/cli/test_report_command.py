"""`rai report`: its forms, its files, and runs of every kind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from runner.cli import main
from runner.core import Outcome, Reason, RunRecord, State, Verdict, record
from runner.report.document.nouns import Report
from runner.store.paths import Home
from tests.kit.documents import command, inference, run

Rai = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rai(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch) -> Rai:
    """Run the command line in this process, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main._status(words)
        return status, *capsys.readouterr()

    return call


def put(home: Path, found: RunRecord) -> str:
    paths = Home(home / "rai").run(found.id)
    paths.root.mkdir(parents=True)
    for path in (paths.events, paths.stdout, paths.stderr):
        path.touch()
    paths.record.write_bytes(record.to_json(found))
    return found.id


@pytest.fixture
def ran(home: Path) -> str:
    every = (
        command(0, "m2.1.py", inference(variant="cpu")),
        command(1, "m3.1.py", inference(times=(0.125,))),
    )
    return put(home, run(*every))


def test_without_options_a_page_is_kept_in_rais_home_and_named(
    ran, rai, home, tmp_path
):
    before = sorted(tmp_path.iterdir())
    status, out, _ = rai("report", ran)

    (file,) = (home / "rai" / "pages").iterdir()
    assert status == 0
    assert sorted(tmp_path.iterdir()) == before
    assert str(file) in out
    page = file.read_text()
    assert "m2: 3 of 3, m3: " in page
    assert page.count("<svg") >= 1


def test_as_json_it_is_of_the_type_that_the_schema_has(ran, rai):
    status, out, _ = rai("report", ran, "--format", "json")

    found = msgspec.json.decode(out, type=Report)
    assert status == 0
    assert [one.script for one in found.networks] == ["m2.1.py", "m3.1.py"]
    assert [one.name for one in found.milestones] == ["m2", "m3"]
    assert json.loads(out)["runs"][0]["took_s"] == 10.0


def test_absurd_figures_are_numbers_that_json_has(home, rai):
    every = (inference(times=(1.7e308, 1.7e308)), inference(variant="cpu"))
    put(home, run(command(0, "m2.1.py", *every)))

    status, out, error = rai("report", "latest", "--format", "json")

    assert (status, error) == (0, "")
    assert "Infinity" not in out
    assert "NaN" not in out
    assert msgspec.json.decode(out, type=Report).networks


def test_the_name_of_the_file_says_the_form(ran, rai, tmp_path):
    for name in ("a.md", "b.json", "c.xml"):
        assert rai("report", ran, "-o", name)[0] == 0
    root = ElementTree.parse(tmp_path / "c.xml").getroot()
    assert root.tag == "testsuites"

    assert (tmp_path / "a.md").read_text().startswith("<!-- rai report -->")
    assert json.loads((tmp_path / "b.json").read_text())["rai_report"] == 1


@pytest.mark.parametrize("name", ["page.html", "text.md", "data.json"])
def test_a_report_is_written_anew_but_nothing_else_is_replaced(
    name, ran, rai, tmp_path
):
    for _ in range(2):
        assert rai("report", ran, "-o", name)[0] == 0
    file = tmp_path / name
    file.write_text("my thesis")

    status, _, why = rai("report", ran, "-o", name)

    assert status == 2
    assert "--force" in why
    assert file.read_text() == "my thesis"
    assert rai("report", ran, "-o", name, "--force")[0] == 0
    assert file.read_text() != "my thesis"


@pytest.mark.parametrize("name", ["pipe", "link", "/dev/stdout", "/dev/null"])
def test_devices_and_pipes_are_not_replaced(ran, rai, tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    before = os.lstat(tmp_path / name)

    status, _, error = rai("report", ran, "-o", name, "--force")

    assert status == 2
    assert "it is a device or a pipe" in error
    after = os.lstat(tmp_path / name)
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)


def test_a_milestone_can_be_asked_for(ran, rai):
    _, out, _ = rai("report", ran, "--format", "json", "--milestone", "m1")

    (only,) = json.loads(out)["milestones"]
    assert only["name"] == "m1"
    assert not any(item["there"] for item in only["items"])


def test_two_runs_are_compared(ran, rai, home):
    other = put(home, run(command(0, "m2.1.py", inference()), name="ab12345678"))

    _, out, _ = rai("report", ran, other, "--format", "json")

    found = json.loads(out)
    assert [one["run"] for one in found["runs"]] == [ran, other]
    assert found["comparison"]["before"]["id"] == ran


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nothing"], "no run 'nothing'"),
        (["latest", "--visibility", "all"], "there are visible, hidden"),
        (["latest", "--points", "nan"], "--points is nan"),
        (["latest", "--milestone", "m9"], "no milestone 'm9'"),
        (["latest", "-o", "none/a.md"], "there is no folder"),
        (["latest", "-o", "/tmp", "--format", "md"], "it is a folder"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    words, why, ran, rai, tmp_path
):
    status, _, error = rai("report", *words)

    assert status == 2
    assert why in error
    assert list(tmp_path.iterdir()) == []


def test_ended_runs_are_written_for_an_autograder_and_written_anew(ran, rai, tmp_path):
    words = ("--format", "gradescope", "--points", "5")
    _, out, _ = rai("report", ran, *words)
    (tmp_path / "results.json").write_text("{}")

    assert rai("report", ran, *words, "-o", "results.json")[0] == 0
    assert (tmp_path / "results.json").read_text() == out
    assert [test["score"] for test in json.loads(out)["tests"]] == [5.0, 5.0]


@pytest.mark.parametrize("form", ["junit", "gradescope"])
def test_a_run_that_goes_on_is_not_written_for_other_programs(form, home, rai):
    put(home, run(verdict=None, state=State.RUNNING, ended_at=None))

    status, _, error = rai("report", "latest", "--format", form)

    assert status == 2
    assert "has not ended" in error


FAILED = Verdict(True, False, None, Reason.COMMAND_FAILED, "`./x` exited 3")
LOST = Verdict(False, False, None, Reason.RUNNER_LOST, "the rai process died")
HARD = {"outcome": Outcome.FAILED, "exit_code": 3}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (run(command(0, "m1.1.py", **HARD), verdict=FAILED), "exited 3"),
        (run(state=State.LOST, verdict=LOST), "the rai process died"),
        (run(verdict=None, state=State.RUNNING, ended_at=None), "has not ended"),
        (run(command(0, "m1.1.py"), title="m1: cpu"), "m1: cpu"),
    ],
    ids=["failed", "lost", "running", "submission"],
)
@pytest.mark.parametrize("form", ["md", "json", "html"])
def test_runs_of_every_kind_have_a_report(form, found, said, home, rai):
    put(home, found)

    status, out, error = rai("report", "latest", "--format", form)

    assert (status, error) == (0, "")
    if form == "md":
        assert said in out


@pytest.mark.parametrize("form", ["md", "json", "html"])
def test_a_report_of_a_hostile_run_has_nothing_of_it_as_it_is(
    form, home, rai, tmp_path
):
    told = "<script>alert(1)</script>\x1b[2J\u2028\U000e0041"
    figures = inference(variant=told)
    hostile = command(0, f"m2.1.py {told}", figures, name=told, why=told)
    put(home, run(hostile, project=f"/{told}", warnings=(told,), only=(told,)))

    assert rai("report", "latest", "-o", f"a.{form}")[0] == 0

    text = (tmp_path / f"a.{form}").read_text()
    assert "\x1b" not in text
    if form != "json":
        assert "<script>alert" not in text


def test_a_run_whose_files_are_damaged_has_a_report_that_says_so(ran, rai, home):
    paths = Home(home / "rai").run(ran)
    paths.build.write_bytes(b"\0" * 100)
    paths.events.write_bytes(b'{"event":"Output"}\n')
    paths.stdout.unlink()

    status, out, _ = rai("report", ran, "--format", "md")

    assert status == 0
    assert "the build folder cannot be read" in out
    assert "events.jsonl cannot be read" in out
