"""Programs started and followed, without an engine around them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from runner.core import Reason, Stream
from runner.core.errors import Cancel, EngineError
from runner.core.events import Output, Tick
from runner.system import child, machine, process
from tests.kit.waiting import until

pytestmark = pytest.mark.programs


def stream(line: str, **options) -> Generator[Output | Tick, None, child.Ended]:
    wanted = {"timeout_s": 20.0, "cancel": Cancel(), "room": process.room(1 << 30)}
    return process.stream(["sh", "-c", line], **(wanted | options))


def follow(line: str, **options) -> tuple[list[Output | Tick], child.Ended]:
    events = []
    running = stream(line, **options)
    while True:
        try:
            events.append(next(running))
        except StopIteration as stop:
            return events, stop.value


def text(events: list[Output | Tick], stream: Stream) -> bytes:
    outputs = [e for e in events if isinstance(e, Output)]
    return b"".join(e.data for e in outputs if e.stream is stream)


def test_a_short_tool_gives_its_whole_answer():
    done = process.run(
        ["sh", "-c", "cat; echo err >&2; exit 7"], input=b"in", timeout_s=5
    )
    assert done == process.Completed(7, b"in", b"err\n")


def test_a_tool_that_a_signal_ends_gives_128_and_its_number():
    assert process.run(["sh", "-c", "kill -9 $$"], timeout_s=5).exit_code == 137


def test_a_tool_finds_its_environment_and_folder(tmp_path: Path):
    done = process.run(
        ["/bin/sh", "-c", "echo $A; pwd"], env={"A": "b"}, cwd=tmp_path, timeout_s=5
    )
    assert done.stdout.decode() == f"b\n{tmp_path}\n"


@pytest.mark.parametrize("script", ["sleep 600", "setsid sleep 600 & sleep 600"])
def test_a_tool_that_gives_no_answer_is_not_waited_for(script: str):
    with pytest.raises(EngineError, match=r"did not end within 0\.2 s"):
        process.run(["sh", "-c", script], timeout_s=0.2)


def test_a_tool_that_is_missing_is_named():
    with pytest.raises(EngineError, match="`no-such-tool` cannot be started"):
        process.run(["no-such-tool"], timeout_s=5)


def test_output_comes_by_stream_with_the_commands_index():
    events, ended = follow("printf a; printf b >&2", index=3)
    assert text(events, Stream.STDOUT) == b"a"
    assert text(events, Stream.STDERR) == b"b"
    assert {event.index for event in events} == {3}
    assert (ended.exit_code, ended.reason) == (0, None)


def test_many_short_lines_become_few_events():
    events, _ = follow("n=0; while [ $n -lt 20000 ]; do echo $n; n=$((n+1)); done")
    assert text(events, Stream.STDOUT).count(b"\n") == 20000
    assert len(events) < 1000


def test_a_command_that_closes_its_output_is_waited_for():
    _, ended = follow("exec >&- 2>&-; sleep 0.3; exit 4")
    assert ended.exit_code == 4
    assert ended.wall_s >= 0.3


def test_what_a_command_used_is_told():
    _, ended = follow("n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done")
    assert ended.cpu_s > 0.01
    assert ended.max_rss_bytes > 100_000


def test_output_stops_at_its_limit_to_the_byte():
    events, ended = follow("yes", room=process.room(12345), grace_s=1)
    assert len(text(events, Stream.STDOUT)) == 12345
    assert ended.reason is Reason.OUTPUT_LIMIT


def test_nothing_is_lost_on_a_reader_that_takes_its_time():
    size = 0
    for event in stream("head -c 1500000 /dev/zero"):
        size += len(event.data) if isinstance(event, Output) else 0
        time.sleep(0.15)
    assert size == 1_500_000


def test_the_limit_is_each_streams_own():
    events, ended = follow("printf 12345; printf 12345 >&2", room=process.room(5))
    assert text(events, Stream.STDERR) == text(events, Stream.STDOUT) == b"12345"
    assert ended.reason is None


def test_whoever_watches_may_end_it():
    asked = []

    def watch() -> Reason | None:
        asked.append(1)
        return Reason.DISK_LIMIT if len(asked) > 2 else None

    _, ended = follow("sleep 600", watch=watch)
    assert ended.reason is Reason.DISK_LIMIT


def test_no_time_left_ends_it_at_once():
    _, ended = follow("sleep 600", timeout_s=0.0)
    assert ended.reason is Reason.TIME_LIMIT


def test_a_reader_that_goes_away_ends_the_command(tmp_path: Path):
    running = stream(f"echo $$ > {tmp_path}/pid; echo go; sleep 60")
    next(running)
    running.close()
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_descriptor_is_left_open():
    follow("true")  # the guard of this process stays
    before = len(list(Path("/proc/self/fd").iterdir()))
    follow("echo x; echo y >&2; sleep 5 &")
    running = stream("sleep 60")
    running.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


FOLLOWS = """
import sys
from runner import process
from runner.core.cancel import Cancel

line = sys.argv[1]
for _ in range(3):
    running = process.stream(
        ["sh", "-c", line], timeout_s=60, cancel=Cancel(), room=process.room(1 << 20)
    )
    for output in running:
        print(getattr(output, "data", b"").decode(), end="", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("whole_group", [False, True])
def test_a_command_dies_with_the_process_that_runs_it(
    whole_group: bool, tmp_path: Path
):
    seen = tmp_path / "seen"
    line = f"[ -e {seen} ] || {{ >{seen}; exit; }}; sleep 600 & echo $! $$; wait"
    rai = subprocess.Popen(
        [sys.executable, "-c", FOLLOWS, line],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with rai:
        pids = [int(word) for word in rai.stdout.readline().split()]
        assert all(map(alive, pids))
        (os.killpg if whole_group else os.kill)(rai.pid, signal.SIGKILL)
    until(lambda: not any(map(alive, pids)))


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_marked_processes_are_found_wherever_they_went(tmp_path: Path):
    file = tmp_path / "pid"
    away = f"setsid sh -c 'echo $$ > {file}; exec sleep 60' >/dev/null 2>&1 &"
    line = f"{away} until [ -s {file} ]; do sleep 0.01; done"
    follow(line, env={"PATH": os.environ["PATH"], "MARK": "of this test"})
    pid = int(file.read_text())
    assert alive(pid)
    machine.kill_marked("MARK", "of this test")
    until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    """Whether a process runs, as one that ended and was not reaped does not."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


def test_a_limit_holds_while_nobody_takes_the_output():
    argv = ["/bin/sh", "-c", "echo $$; exec yes"]
    events = process.stream(
        argv, timeout_s=0.5, cancel=Cancel(), room=process.room(1 << 30), grace_s=0.1
    )
    pid = int(next(events).data.split()[0])
    # It waits to be reaped.
    until(lambda: Path(f"/proc/{pid}/cmdline").read_bytes() == b"")
    with pytest.raises(StopIteration) as end:
        while True:
            next(events)
    assert end.value.value.reason is Reason.TIME_LIMIT
