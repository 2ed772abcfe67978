"""The public API: run, validate and parse, and a sealed project run again."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest

import runner
from runner.core import Reason
from runner.core import events as ev
from runner.core.errors import Cancel, UsageError
from runner.core.request import from_json, to_json
from runner.execution import prepare, session
from runner.execution.places import sweep
from runner.pack.write import zstd
from runner.store.paths import Home, RunPaths
from tests.kit.needs import ROOT
from tests.kit.program import run_program

pytestmark = pytest.mark.programs

SPEC = """\
rai: {version: 0.2}
commands:
  build:
    - echo hello
    - cat $RAI_SOURCE_DIR/note.txt
"""


PROJECT = {"rai_build.yml": SPEC, "note.txt": "first\n"}


def output(events: list[ev.Event]) -> bytes:
    return b"".join(e.data for e in events if isinstance(e, ev.Output))


def ran(project: Path, home: Path) -> RunPaths:
    """Run a project, and return the folder of that run."""
    list(runner.run(project, engine="bare", home=home))
    return sealed(home)


def sealed(home: Path) -> RunPaths:
    (folder,) = (home / "runs").iterdir()
    return RunPaths(folder)


def test_the_documents_example_runs(project):
    text = (ROOT / "docs/architecture.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)

    done = run_program(
        [sys.executable, "-c", example],
        cwd=project.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )

    first, *said = done.stdout.splitlines()
    assert first.startswith("run ")
    assert said == ["hello", "first", "done 0"]


def test_a_run_begins_with_its_id_and_ends_with_its_verdict(project, tmp_path):
    events = list(runner.run(project, engine="bare", home=tmp_path / "kept"))

    assert isinstance(events[0], ev.Created)
    assert events[-1].verdict.reason is Reason.DONE
    assert output(events) == b"hello\nfirst\n"
    assert sealed(tmp_path / "kept").id == events[0].run_id


def test_an_iterator_that_is_closed_ends_the_run_as_cancelled(project, tmp_path):
    events = runner.run(project, engine="bare", home=tmp_path / "kept")
    next(event for event in events if isinstance(event, ev.CommandStarted))
    events.close()

    record = json.loads(sealed(tmp_path / "kept").record.read_text())
    assert record["verdict"]["reason"] == "cancelled"


def test_a_project_without_a_build_file_is_an_error(tmp_path):
    with pytest.raises(UsageError, match=r"has no rai_build\.yml"):
        runner.run(tmp_path)
    with pytest.raises(UsageError, match=r"has no rai_build\.yml"):
        runner.validate(tmp_path)


def test_validate_returns_the_plan_or_every_problem(project):
    found = runner.validate(project, engine="bare")
    assert found.ok
    assert found.steps[0].command.text == "echo hello"

    (project / "rai_build.yml").write_text("rai: {image: 3}\ncomands: []\n")
    found = runner.validate(project)
    assert not found.ok
    assert len(found.problems) >= 2


def test_parse_reads_bytes_and_files_alike(tmp_path):
    text = b"New Inference\nOp Time: 0.25\nCorrectness: 0.8 Model: m\n"
    (tmp_path / "log").write_bytes(text)

    found = runner.parse(text)
    with (tmp_path / "log").open("rb") as log:
        assert runner.parse(log) == found
    assert found.inferences[0].op_times_s == (0.25,)


def test_importing_the_package_loads_nothing_else():
    code = "import sys, runner; print([m for m in sys.modules if m[:7] == 'runner.'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout == b"[]\n"


def test_a_sealed_project_that_was_changed_is_refused(project, tmp_path):
    home = tmp_path / "kept"
    paths = ran(project, home)
    other = tmp_path / "other"
    other.mkdir()
    (other / "rai_build.yml").write_text(SPEC)
    (other / "note.txt").write_text("other\n")
    paths.source.write_bytes(ran(other, tmp_path / "theirs").source.read_bytes())

    again = session.start(
        prepare.reopen(paths, prepare.Options(engine="bare", home=home))
    )
    events = list(again.events(Cancel()))

    finished = events[-1]
    assert "is not the project that its parcel names" in finished.verdict.message
    assert finished.verdict.reason is Reason.USAGE
    assert output(events) == b""


def crafted(*members):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as out:
        for name, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.LNKTYPE if link else b"0", link
            out.addfile(info)
    return made.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no tar" * 200, Reason.USAGE),
        (crafted(("n" * 300, "")), Reason.USAGE),
        (crafted(("a\udcff", ""), ("a", ""))[:600], Reason.USAGE),
        (crafted(("../a", "")), Reason.NOT_ALLOWED),
        (crafted(("a", ""), ("a/b", "")), Reason.NOT_ALLOWED),
        (crafted(("a", "/etc/passwd")), Reason.NOT_ALLOWED),
    ],
)
def test_a_crafted_archive_is_its_senders_fault_and_names_no_path(
    project, tmp_path, data, reason
):
    home = tmp_path / "kept"
    paths = ran(project, home)
    paths.source.write_bytes(zstd.compress(data))
    parcel = from_json(paths.parcel.read_bytes())
    changed = msgspec.structs.replace(parcel, sha256=hashlib.sha256(data).hexdigest())
    paths.parcel.write_bytes(to_json(changed))

    options = prepare.Options(engine="bare", home=home)
    finished = list(session.start(prepare.reopen(paths, options)).events(Cancel()))[-1]

    assert finished.verdict.reason is reason, finished
    assert str(tmp_path) not in finished.verdict.message


@pytest.mark.parametrize("name", ["{}", ".{}.abcd"], ids=["whole", "half"])
def test_what_a_killed_run_of_a_sealed_project_unpacked_is_removed(
    name, project, tmp_path
):
    home = tmp_path / "kept"
    paths = ran(project, home)
    paths.record.unlink()
    unpacked = paths.root / name.format(paths.unpacked.name)
    unpacked.mkdir()

    sweep(Home(home))

    assert not unpacked.exists()
    assert paths.record.exists()


def test_a_folder_whose_name_is_no_text_runs_and_is_listed(tmp_path):
    project = tmp_path / os.fsdecode(b"bad\xff")
    project.mkdir()
    (project / "rai_build.yml").write_text(SPEC.replace("cat ", "echo "))
    events = list(runner.run(project, engine="bare", home=tmp_path / "kept"))
    assert events[-1].verdict.reason is Reason.DONE
    assert events[0].project == str(tmp_path / "bad\N{REPLACEMENT CHARACTER}")
    record = json.loads(sealed(tmp_path / "kept").record.read_text())
    assert record["project"] == events[0].project


def test_a_command_that_no_program_can_be_started_with_is_a_problem(project):
    line = f"echo {'x' * 100_000}"
    (project / "rai_build.yml").write_text(SPEC.replace("echo hello", line))
    (problem,) = runner.validate(project, engine="bare").problems
    assert problem.message.startswith("the command is 100,005 bytes")
