"""`rai run --watch`: which saves count, what is packed anew, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import watchfiles

from runner import pack as archive
from runner.core import (
    CommandRecord,
    Findings,
    Inference,
    Outcome,
    Reason,
    RunRecord,
    Verdict,
)
from runner.core.errors import Cancel
from runner.execution import watching
from runner.execution.watching import Watcher
from runner.report.ending import Series, versus
from runner.store.settings import Settings
from tests.kit import records
from tests.kit.program import Forked

SOON_S = 30.0
SPEC = "commands: {build: [echo hello]}\n"


PROJECT = {
    "rai_build.yml": SPEC,
    "main.c": "one\n",
    "part/more.c": "one\n",
    ".gitignore": "*.o\nout/\n",
}


def replace(file: Path, text: str) -> None:
    """Save as many editors do: write aside, and rename."""
    new = file.with_name(f".{file.name}.swp.o")
    new.write_text(text)
    new.rename(file)


@pytest.fixture
def watcher(project: Path, tmp_path: Path) -> Iterator[Watcher]:
    with watching.watcher(project, Settings(tmp_path), project / "built") as made:
        yield made


def test_where_the_system_watches_no_more_folders_the_files_are_looked_at(
    project, tmp_path, monkeypatch
):
    watch = watchfiles.watch

    def refused(*args, force_polling, **options):
        if not force_polling:
            raise OSError(errno.ENOSPC, "no space left on device")
        return watch(*args, force_polling=True, **options)

    monkeypatch.setattr(watchfiles, "watch", refused)
    os.utime(project / "main.c", (1, 1))  # who looks sees whole seconds
    with watching.watcher(project, Settings(tmp_path), None) as watcher:
        (project / "main.c").write_text("two\n")
        assert watcher.wait(SOON_S)
        assert watcher.changes() == ["main.c"]


def test_a_save_is_noticed_and_an_ignored_file_is_nobodys(project, watcher):
    called = threading.Event()
    (project / "main.o").write_text("object")
    (project / ".built.x1").mkdir()
    (project / ".built.x1" / "file").write_text("unpacked")
    (project / ".built.x1").rename(project / "built")
    watcher.call(called.set)
    replace(project / "main.c", "two\n")

    assert watcher.wait(SOON_S)
    assert called.is_set()
    assert watcher.changes() == ["main.c"]
    assert not watcher.wait(0)


def test_what_counts_is_what_would_be_sent(project, watcher):
    (project / "main.o").write_text("object")
    (project / "out").mkdir()
    (project / "out" / "log").write_text("text")
    (project / "part" / "new.c").write_text("new\n")
    (project / "part" / "more.c").unlink()
    (project / "rai_build.yml").write_text("commands: {build: [echo changed]}\n")
    names: set[str] = set()
    while names != {"part/more.c", "part/new.c", "rai_build.yml"}:
        assert watcher.wait(SOON_S), names
        names |= {*watcher.changes()}


def test_neither_ignored_folders_nor_those_behind_links_are_watched(
    project, tmp_path, monkeypatch
):
    (project / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (project / "link").symlink_to(tmp_path / "elsewhere")
    asked: list[tuple[Path, ...]] = []
    watch = watchfiles.watch

    def noted(*folders, recursive, **options):
        assert not recursive
        asked.append(folders)
        return watch(*folders, recursive=False, **options)

    monkeypatch.setattr(watchfiles, "watch", noted)
    with watching.watcher(project, Settings(tmp_path), None):
        assert {*asked[0]} == {project, project / "part"}


def test_a_file_in_a_new_folder_is_noticed_and_a_save_before_the_call(project, watcher):
    (project / "new" / "deep").mkdir(parents=True)
    (project / "new" / "deep" / "file.c").write_text("a\n")
    assert watcher.wait(SOON_S)
    names = watcher.changes()
    while "new/deep/file.c" not in names:
        assert watcher.wait(SOON_S)
        names += watcher.changes()

    (project / "new" / "deep" / "file.c").write_text("bb\n")
    assert watcher.wait(SOON_S)
    called = threading.Event()
    watcher.call(called.set)
    assert called.is_set()


def pack(project: Path, into: Path, cache: archive.PackCache | None = None) -> str:
    steps = archive.pack(archive.survey(project), into, cache=cache)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: str = end.value.sha256
            return found


def test_a_cache_packs_the_same_and_reads_what_changed(project, tmp_path):
    cache, into = archive.PackCache(), tmp_path / "archive"
    for file in project.rglob("*"):
        os.utime(file, (1, 1))
    time.sleep(0.15)  # so that the change of the times has settled too
    first = pack(project, into, cache)
    assert pack(project, into, cache) == pack(project, into) == first

    (project / "main.c").write_text("two\n")
    (project / "part" / "more.c").chmod(0o755)
    second = pack(project, into, cache)
    assert second == pack(project, into) != first


def test_a_file_that_has_just_changed_is_read_again(project, tmp_path):
    cache, into, file = archive.PackCache(), tmp_path / "archive", project / "main.c"
    file.write_text("two\n")
    status = file.stat()
    pack(project, into, cache)
    file.write_text("owt\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert pack(project, into, cache) == pack(project, into)


def run(*commands: CommandRecord) -> RunRecord:
    return records.ended("abc", *commands)


def command(
    wall_s: float, *, op_s: float = 0.0, right: float = 0.0, ok: bool = True, n: int = 0
) -> CommandRecord:
    inference = Inference(
        model="m", op_times_s=(op_s,) if op_s else (), correctness=right or None
    )
    return records.command(
        n,
        "make a very long line of it",
        name="bench" if n == 0 else None,
        outcome=Outcome.OK if ok else Outcome.FAILED,
        wall_s=wall_s,
        findings=Findings(inferences=(inference,)),
    )


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (command(2.0), command(1.0), "`bench` 1.0 s (was 2.0 s, 2.0 times as fast)"),
        (command(1.0), command(2.0), "`bench` 2.0 s (was 1.0 s, 2.0 times as long)"),
        (command(1.4), command(1.0), "`bench` 1.0 s (was 1.4 s, 29 % less time)"),
        (command(1.0), command(1.3), "`bench` 1.3 s (was 1.0 s, 30 % more time)"),
        (command(1.0), command(1.01), "no time changed by more than 5 %"),
        (command(0.002), command(0.004), "no time changed by more than 5 %"),
        (
            command(1.0, op_s=0.5),
            command(1.0, op_s=0.25),
            "op time of `bench` 0.250 s (was 0.500 s, 2.0 times as fast)",
        ),
        (
            command(1.0, right=0.8898),
            command(1.0, right=0.5),
            "correctness 0.5 (was 0.8898)",
        ),
        (command(1.0), command(0.1, ok=False), "`bench` fails now"),
        (command(1.0, ok=False), command(1.0), "`bench` works now"),
        (command(1.0), command(1.0, n=1), "there is nothing to compare"),
        (
            command(2.0, n=1),
            command(3.0, n=1),
            "command 2 3.0 s (was 2.0 s, 1.5 times as long)",
        ),
    ],
)
def test_one_line_tells_what_became_faster_or_slower_right_or_wrong(
    before, after, line
):
    assert versus(run(before), run(after)) == f"Since run abc: {line}."


def test_the_times_that_changed_most_come_first_and_the_others_are_counted():
    before = run(*(command(1.0, n=n) for n in range(1)), *map(named, range(1, 6)))
    after = run(command(1.0), *(named(n, 1.0 + n / 2) for n in range(1, 6)))
    found = versus(before, after)
    assert found.index("`c5`") < found.index("`c4`") < found.index("`c3`")
    assert found.endswith("and 2 other times.")


def test_after_a_failure_the_run_before_it_is_what_times_are_compared_with():
    series = Series()
    assert series.add(ended(command(2.0))) == []
    assert series.add(ended(command(0.1, ok=False), ran=False)) == [
        "Since run abc: `bench` fails now."
    ]
    assert series.add(ended(command(1.0))) == [
        "Since run abc: `bench` works now.",
        "Since run abc: `bench` 1.0 s (was 2.0 s, 2.0 times as fast).",
    ]


def ended(one: CommandRecord, *, ran: bool = True) -> RunRecord:
    reason = Reason.DONE if ran else Reason.COMMAND_FAILED
    return records.ended("abc", one, verdict=Verdict(True, ran, None, reason))


def named(n: int, wall_s: float = 1.0) -> CommandRecord:
    return records.command(n, f"c{n}", wall_s=wall_s)


def test_a_cancel_is_requested_with_the_one_above_it():
    above = Cancel()
    below = Cancel(above)
    below.request("a file was saved")
    assert (below.requested, above.requested) == (True, False)
    assert below.end == (Reason.CANCELLED, "a file was saved")
    other = Cancel(above)
    above.request()
    assert other.requested


class Watching:
    """`rai run --watch` as a process, and what it has printed."""

    def __init__(self, project: Path, *words: str) -> None:
        words = ("run", "-p", str(project), "--engine", "bare", "--watch", *words)
        self.process = Forked(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.lines: list[str] = []

    def until(self, text: str) -> str:
        """Read to a line with a text; return that line."""
        for line in self.process.stdout:
            self.lines.append(line)
            if text in line:
                return line
        raise AssertionError("".join(self.lines))

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.status()

    def status(self) -> int:
        self.process.communicate(timeout=SOON_S)
        return self.process.wait()


@pytest.mark.programs
@pytest.mark.lengthy
def test_a_save_ends_the_run_and_starts_the_next_and_ctrl_c_ends_it_all(project):
    say = "sh -c 'cat $RAI_SOURCE_DIR/main.c; exec sleep $(cat $RAI_SOURCE_DIR/pause)'"
    (project / "rai_build.yml").write_text(f'commands: {{build: ["{say}"]}}\n')
    (project / "pause").write_text("600\n")
    watching = Watching(project)
    watching.until("one")

    (project / "pause").write_text("0\n")
    watching.until("cancelled: a file was saved")
    assert "pause changed" in watching.until("changed")
    watching.until("Watching")
    (project / "rai_build.yml").write_text("commands: [\n")
    assert "rai_build.yml:" in watching.until("rai_build.yml:")
    watching.until("Watching")
    (project / "rai_build.yml").write_text(f'commands: {{build: ["{say}"]}}\n')
    replace(project / "main.c", "two\n")
    watching.until("two")
    watching.until("Since run")
    watching.until("Watching")
    for same in ("Using the bare engine", "Packing", "Project packed"):
        assert sum(same in line for line in watching.lines) == 1

    assert watching.end() == 130


@pytest.mark.programs
def test_the_end_of_the_projects_folder_ends_it_with_two(project):
    watching = Watching(project)
    watching.until("Watching")
    project.rename(project.with_name("elsewhere"))
    watching.until("was removed")
    assert watching.status() == 2


@pytest.mark.programs
@pytest.mark.parametrize("words", [("--json",), ("--detach",)])
def test_what_is_for_one_run_does_not_go_with_it(project, words):
    watching = Watching(project, *words)
    watching.until("leave one out")
    assert watching.status() == 2


@pytest.mark.programs
def test_where_there_is_no_build_file_it_does_not_begin(project):
    (project / "rai_build.yml").unlink()
    watching = Watching(project)
    watching.until("has no rai_build.yml")
    assert watching.status() == 2
