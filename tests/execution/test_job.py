"""The life of one run, on an engine that follows a script."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.core import (
    JobRequest,
    Outcome,
    ProfileFile,
    Reason,
    RunRecord,
    RunRequest,
    State,
    events,
    record,
)
from runner.core.errors import Cancel
from runner.execution import job, places
from runner.execution.job import GoOn
from runner.execution.preparation import Preparation
from runner.pack import FolderProject, SealedProject, datafiles
from runner.spec import buildfile
from runner.store import run_files, runs
from runner.store.claim import Claim
from runner.store.paths import Home
from tests.kit.fake_engine import FakeEngine, FakeResult

SPEC = """\
rai: {version: 0.2}
commands:
  build:
    - first
    - {run: second, continue_on_error: %s}
    - third
"""
INFERENCE = b"New Inference\nOp Time: 0.25\nOp Time: 0.5\nCorrectness: 0.8 Model: m\n"


PROJECT = {"main.c": "int main() {}\n"}


def carry_out(
    project: Path,
    *engines: FakeEngine,
    keep_going: bool = False,
    forgiving: bool = False,
    text: str = "",
    gpu_wait_s: float = 600.0,
    cancel: Cancel | None = None,
    heard: Callable[[events.Event], None] = lambda _: None,
    sealed: SealedProject | None = None,
    go_on: GoOn | None = None,
    **more: Any,
) -> tuple[RunRecord, list[events.Event], Home]:
    home = Home(project.parent / "home")
    text = text or SPEC % str(forgiving).lower()
    parsed, _ = buildfile.parse(text, "rai_build.yml")
    profile = parsed.profile
    asked = RunRequest(
        str(project),
        "rai_build.yml",
        text,
        keep_going=keep_going,
        gpu_wait_s=gpu_wait_s,
        **{name: more.pop(name) for name in RunRequest.__struct_fields__ & more.keys()},
    )
    request = JobRequest(asked, project, parsed, profile, **more)
    paths = runs.create(home)
    places = datafiles.DataPlaces(None, project, home.data)
    cancel = cancel or Cancel()
    told = []
    preparation = Preparation(
        request,
        sealed or FolderProject(project),
        engines,
        paths,
        places,
        cancel,
        download=False,
    )
    for event in job.run(preparation, go_on):
        told.append(event)
        heard(event)
    found = runs.read(paths)
    assert found is not None
    return found, told, home


def test_a_run_whose_commands_succeed_is_done_and_kept(project):
    engine = FakeEngine({"first": FakeResult(INFERENCE)})

    found, told, home = carry_out(project, engine)

    assert engine.ran == ["first", "second", "third"]
    assert found.verdict.reason is Reason.DONE
    assert found.verdict.passed is None
    assert found.state is State.DONE
    assert found.commands[0].wall_s == 0.25
    assert found.commands[0].cpu_s == 0.125
    assert found.commands[0].findings.inferences[0].op_times_s == (0.25, 0.5)
    assert found.peak_memory_bytes == 12345
    paths = home.run(found.id)
    assert paths.stdout.read_bytes() == INFERENCE
    assert paths.source.exists()
    assert paths.build.exists()
    assert not list(paths.root.glob(".*"))
    assert isinstance(told[0], events.Created)
    assert isinstance(told[-1], events.Finished)


def test_the_first_failure_stops_the_run_and_the_rest_is_recorded_as_skipped(project):
    engine = FakeEngine({"first": FakeResult(stderr=b"no\n", exit_code=3)})

    found, _, _ = carry_out(project, engine)

    assert engine.ran == ["first"]
    assert [c.outcome for c in found.commands] == [
        Outcome.FAILED,
        Outcome.SKIPPED,
        Outcome.SKIPPED,
    ]
    assert found.verdict.reason is Reason.COMMAND_FAILED
    assert found.verdict.message == "`first` exited 3"
    assert "--keep-going" in found.verdict.advice
    assert found.build_bytes


def test_keep_going_runs_the_rest_and_still_tells_the_failure(project):
    engine = FakeEngine({"first": FakeResult(exit_code=1)})

    found, _, _ = carry_out(project, engine, keep_going=True)

    assert engine.ran == ["first", "second", "third"]
    assert found.verdict.reason.exit_code == 1
    assert "--keep-going" not in found.verdict.advice


def test_the_last_command_leaves_no_rest_to_run(project):
    found, _, _ = carry_out(project, FakeEngine({"third": FakeResult(exit_code=1)}))

    assert "--keep-going" not in found.verdict.advice


def test_many_failures_are_counted_and_the_first_numbered(project):
    names = [f"echo {'x' * 80} {n}" for n in range(1, 41)]
    text = json.dumps({"commands": {"build": names}})
    ends = {2: FakeResult(exit_code=1), 7: FakeResult(exit_code=2)}
    two = FakeEngine({names[n - 1]: says for n, says in ends.items()})
    slow = FakeResult(exit_code=143, reason=Reason.TIME_LIMIT)
    late = FakeEngine({**two.script, names[8]: slow})
    many = FakeEngine({name: FakeResult(exit_code=n) for n, name in enumerate(names)})

    messages = []
    for engine in (two, late, many):
        found, _, _ = carry_out(project, engine, keep_going=True, text=text)
        messages.append(found.verdict.message)

    assert messages[0] == "2 of 40 commands failed: 2 (exit 1), 7 (exit 2)"
    assert messages[1].startswith(f"`{names[8]}` exceeded the run's time limit")
    assert messages[1].endswith(f"; {messages[0]}")
    assert messages[2].startswith("39 of 40 commands failed: 2 (exit 1), 3 (exit 2)")
    assert messages[2].endswith(", 11 (exit 10) and 29 more")


def test_a_command_that_may_fail_fails_nothing(project):
    engine = FakeEngine({"second": FakeResult(exit_code=1)})

    found, _, _ = carry_out(project, engine, forgiving=True)

    assert engine.ran == ["first", "second", "third"]
    assert found.commands[1].outcome is Outcome.FAILED
    assert found.verdict.reason is Reason.DONE


def test_a_limit_ends_the_run_even_when_it_shall_keep_going(project):
    script = {"first": FakeResult(exit_code=143, reason=Reason.TIME_LIMIT)}
    engine = FakeEngine(script)

    found, _, _ = carry_out(project, engine, keep_going=True)

    assert engine.ran == ["first"]
    assert found.verdict.reason is Reason.TIME_LIMIT


def test_a_cancelled_run_is_cancelled_and_keeps_what_it_has(project):
    found, _, home = carry_out(
        project, FakeEngine({"second": FakeResult(cancels=True)})
    )

    assert found.state is State.CANCELLED
    assert found.verdict.reason.exit_code == 130
    assert home.run(found.id).build.exists()


def test_an_engine_that_breaks_is_no_failure_of_the_command(project):
    found, told, _ = carry_out(project, FakeEngine({"second": FakeResult(breaks=True)}))

    assert found.verdict.served is False
    assert found.verdict.reason is Reason.INTERNAL
    assert isinstance(told[-1], events.Finished)


def test_where_an_image_cannot_be_had_the_next_engine_serves_and_says_so(project):
    first = FakeEngine(name="docker", images=True, no_image=True)
    second = FakeEngine(name="local")

    found, told, _ = carry_out(project, first, second, text=SPEC.replace("%s", "false"))

    assert second.ran == ["first", "second", "third"]
    assert found.engine.name == "local"
    assert any(isinstance(e, events.Warned) for e in told)


@pytest.mark.parametrize(
    "text", [SPEC % "false", "commands: {build_image: {dockerfile: d}, build: [x]}\n"]
)
def test_a_project_without_an_image_and_a_dockerfile_is_refused_unpacked(text, project):
    first = FakeEngine(name="docker", images=True, dockerfile=None)
    second = FakeEngine(name="local")

    found, told, home = carry_out(project, first, second, text=text)

    assert found.verdict.reason.exit_code == 3
    assert "Dockerfile" in found.verdict.message
    assert not any(isinstance(event, events.Packing) for event in told)
    assert not home.run(found.id).source.exists()
    assert second.ran == []


def test_an_engine_without_images_needs_no_dockerfile(project):
    engine = FakeEngine(dockerfile=None)

    carry_out(project, engine)

    assert engine.ran == ["first", "second", "third"]


def test_a_run_that_ends_before_its_commands_tells_them_as_skipped(project):
    found, _, _ = carry_out(project, FakeEngine(images=True, no_image=True))

    assert [c.outcome for c in found.commands] == [Outcome.SKIPPED] * 3
    assert found.verdict.served
    assert found.verdict.reason.exit_code == 3


def test_commands_that_need_a_gpu_are_skipped_without_one(project):
    text = "commands: {build: [one, {run: two, needs: gpu}]}\n"
    engine = FakeEngine()

    found, _, _ = carry_out(project, engine, text=text)

    assert engine.ran == ["one"]
    assert found.commands[1].outcome is Outcome.SKIPPED
    assert "GPU" in found.commands[1].why
    assert found.verdict.reason is Reason.DONE


def test_profiles_that_came_back_are_named_with_the_commands_that_wrote_them(project):
    long = "a" * 120 + ".nvprof"
    text = f"""\
commands:
  build:
    - nvprof -o t.nvprof python a.py
    - nvprof -o t.nvprof python b.py
    - nvprof -o out/{long} python c.py
    - nvprof -o lost.nvprof python d.py
"""
    engine = FakeEngine(
        {
            "nvprof -o t.nvprof python b.py": FakeResult(
                b"t.nvprof exists\n", exit_code=1
            )
        },
        build={"t.nvprof": b"SQLite", f"out/{long}": b"SQLite...", "lost": b""},
    )

    found, told, home = carry_out(project, engine, keep_going=True, text=text)

    assert [c.profile_files for c in found.commands] == [
        (ProfileFile("nvprof", "t.nvprof", 6),),
        (),
        (ProfileFile("nvprof", f"out/{long}", 9),),
        (),
    ]
    assert record.fold(runs.stamped(home.run(found.id))) == found
    assert [e.index for e in told if isinstance(e, events.Profiled)] == [0, 2]


def test_a_build_folder_that_cannot_be_looked_through_is_kept_with_a_warning(project):
    text = "commands: {build: [nvprof -o t.nvprof python a.py]}\n"
    engine = FakeEngine(build={"../t.nvprof": b"SQLite"})

    found, _, home = carry_out(project, engine, text=text)

    assert found.verdict.reason is Reason.DONE
    assert "cannot look for profiles" in found.warnings[-1]
    assert home.run(found.id).build.exists()


def test_a_run_whose_holder_died_is_lost_at_the_next_look(project):
    found, _, home = carry_out(project, FakeEngine())
    paths = home.run(found.id)
    Claim(paths).close()
    lines = paths.events.read_bytes().splitlines(keepends=True)
    for length in range(1, len(lines)):
        paths.record.unlink()
        paths.events.write_bytes(b"".join(lines[:length]) + lines[length][:7])

        (half,) = places.sweep(home)

        assert half.state is State.LOST
        assert half.verdict.reason is Reason.RUNNER_LOST
        assert runs.read(paths) == half


def test_a_sealed_project_is_unpacked_while_commands_run_and_gone_at_the_end(project):
    first, _, home = carry_out(project, FakeEngine())
    parcel = RunRequest(str(project), "rai_build.yml", "", first.archive_sha256)
    scratch = project.parent / "unpacked"
    sealed = SealedProject(home.run(first.id).source, parcel, scratch)
    seen = {}

    def look(event: events.Event) -> None:
        seen[type(event)] = (scratch / "main.c").exists(), scratch.exists()

    carry_out(project, FakeEngine(), sealed=sealed, heard=look)

    assert seen[events.CommandStarted] == (True, True)
    assert seen[events.Finished] == (False, False)


def test_nothing_of_a_runs_folder_goes_after_its_record_is_there(project, monkeypatch):
    renamed, left = os.rename, {}

    def rename(old, new, **options) -> None:
        renamed(old, new, **options)
        path = Path(new)
        if path.name == "record.json":
            left[path] = sorted(file.name for file in path.parent.iterdir())

    monkeypatch.setattr(os, "rename", rename)
    tick = events.Tick(0, 1.0)

    def heard(event: events.Event) -> None:
        (paths,) = (home.run(name) for name in runs.names(home))
        run_files.write_latest(paths, tick, 0.0)

    home = Home(project.parent / "home")
    found, _, _ = carry_out(project, FakeEngine(), heard=heard)

    paths = home.run(found.id)
    assert left == {paths.record: sorted(file.name for file in paths.root.iterdir())}


@pytest.mark.parametrize(
    ("line", "hinted"),
    [
        ("./main.c", True),
        ("cat x/../main.c | wc; false", True),
        ("cat $RAI_SOURCE_DIR/main.c", False),
        ("cd $RAI_SOURCE_DIR && cat main.c", False),
        ("cat answer.txt", False),
        ("cat ../main.c other.c", False),
    ],
)
def test_a_failed_command_that_seeks_the_projects_files_here_is_told_where_they_are(
    line, hinted, project
):
    (project / "answer.txt").touch()  # the build folder has one too
    text = f"rai: {{version: 0.2}}\ncommands:\n  build:\n    - {line}\n"
    engine = FakeEngine({line: FakeResult(exit_code=1)})

    found, _, _ = carry_out(project, engine, text=text)

    assert ("Write `$RAI_SOURCE_DIR/main.c`" in found.verdict.advice) is hinted


def test_without_the_named_image_another_engine_is_offered_and_not_taken(project):
    text = "rai: {version: 0.2, image: 'gcc:12'}\ncommands: {build: [first]}\n"
    other = FakeEngine(name="local")

    first = FakeEngine(images=True, no_image=True)
    found, _, _ = carry_out(project, first, other, text=text)

    assert found.verdict.reason is Reason.IMAGE_NOT_FOUND
    assert "or `--engine local` to use this machine's programs" in found.verdict.message
    assert other.ran == []
