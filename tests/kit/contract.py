"""What every engine keeps to, run for real.

A test file of an engine says ``from tests.kit.contract import *`` and has a
fixture ``subject`` that gives a running.Subject. Nothing here knows which engine it is.
"""

from __future__ import annotations

import copy
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import GpuGrant, GpuWay, Profile, Reason, Step
from runner.core.errors import BusyError
from runner.core.events import (
    CommandFinished,
    CommandStarted,
    GpuGiven,
    RoundEnded,
    Starting,
)
from runner.core.work import Secrets
from runner.engines.base import Engine
from tests.kit.gpu_standins import DRIVER_API, StandIn, stand_in
from tests.kit.running import RUN_ID, Subject, direct, run, shell

MB = 1_000_000
LONG = "sleep 600"
"""Longer than the time of a run, so that to wait for it is to meet that limit."""


# How a command ends


def test_each_command_ends_with_its_own_code_and_where_asked_all_of_them_run(
    subject: Subject,
):
    ends = ["exit 0", "exit 1", "exit 3", "exit 255", "kill -9 $$", "kill -11 $$"]
    result = run(subject, [*ends, "echo last"], keep_going=True)
    assert result.codes == [0, 1, 3, 255, 128 + 9, 128 + 11, 0]
    assert {finished.reason for finished in result.finished} == {None}
    assert result.stdout == b"last\n"


def test_what_is_no_program_is_named_and_ends_with_127_or_126(subject: Subject):
    words = direct("no-such-program-here", "x"), direct("/etc/passwd")
    result = run(subject, words, keep_going=True)
    absent, unfit, *_ = result.stderr.split(b"\n")
    assert result.codes == [127, 126]
    assert absent == b"command not found: no-such-program-here"
    assert unfit.startswith(b"cannot run /etc/passwd: ")


# What a command says


def test_bytes_of_each_stream_and_command_arrive_as_they_are(subject: Subject):
    odd = "printf '\\377\\000\\376\\r\\033[1m'"
    result = run(subject, ["echo out; printf err >&2; echo more", odd])
    assert result.said == [b"out\nmore\n", b"\xff\x00\xfe\r\x1b[1m"]
    assert result.stderr == b"err"


@pytest.fixture
def impatient(subject: Subject) -> tuple[Subject, float]:
    """The engine, with a short time-out for its own calls, and more seconds than that.

    Where it has none, some are enough.
    """
    return subject, 1.5


def test_a_command_that_is_silent_for_long_loses_nothing_of_what_it_says_then(
    impatient: tuple[Subject, float],
):
    subject, silent_s = impatient
    result = run(subject, [f"echo first; sleep {silent_s}; echo then; exit 3"])
    assert (result.codes, result.stdout) == ([3], b"first\nthen\n")


# What a command finds


def test_a_command_finds_its_project_a_home_and_no_terminal_and_is_read_by_a_shell(
    subject: Subject,
):
    no_terminal = "test -t 0 || test -t 1 || test -t 2 || echo none; wc -c"
    project = "cat $RAI_SOURCE_DIR/hello.txt; sh $RAI_SOURCE_DIR/sub/run.sh"
    file = '"${TMPDIR:-/tmp}/kept"'
    home = f"mkdir -p $HOME && test -w $HOME && echo x > {file}"
    name = "python3 -c 'import getpass; print(getpass.getuser())' || echo $LOGNAME"
    plain = direct("printf", "%s;", "$HOME", "*", "a b")
    lines = [no_terminal, project, home, f"cat {file}", f"{name}; echo $USER", plain]
    result = run(subject, [*lines, "echo a | tr a b && echo c", "false | true"])
    said = result.said
    assert said[0].split() == [b"none", b"0"]
    assert said[1:4] == [b"hello\nran\n", b"", b"x\n"]
    assert len(said[4].split()) == 2 and len({*said[4].split()}) == 1
    assert said[5:] == [b"$HOME;*;a b;", b"b\nc\n", b""]
    assert result.codes == [0] * 7 + [1]


def test_the_names_of_the_original_are_in_the_environment(subject: Subject):
    found = run(subject, ["env"], environment={"MINE": "a b"}).stdout.decode()
    names = dict(line.split("=", 1) for line in found.splitlines() if "=" in line)
    assert names["CI"] == "rai"
    assert names["RAI"] == "true"
    assert names["TERM"] == "xterm"
    assert names["MINE"] == "a b"
    assert names["RAI_SOURCE_DIR"] == names["SOURCE_DIR"]
    assert names["RAI_BUILD_DIR"] == names["BUILD_DIR"]
    assert names["RAI_DATA_DIR"] == names["DATA_DIR"]
    for name in ("RAI_ARCH", "RAI_USER", "HOME", "SHELL", "PATH", "LD_LIBRARY_PATH"):
        assert names[name]
    assert "IMAGE_NAME" in names
    assert "/usr/local/cuda/bin" in names["PATH"].split(":")


def test_variables_reach_the_command_whole_and_no_command_line(subject: Subject):
    secret = "a 'b' \"c\"\n$HOME `id` \\ \u00e9 hunter" + "2" * 3
    step = shell("env -0; tr '\\0' ' ' </proc/*/cmdline; wc -c", env=(("N", "own"),))
    secrets = Secrets({"TOKEN": secret, "HOME": "/given"})
    shared = {"N": "1", "HOME": "/all", "EMPTY": ""}

    result = run(subject, [step, "echo $N"], environment=shared, secrets=secrets)

    *found, rest = result.stdout.split(b"\0")
    names = dict(pair.decode().split("=", 1) for pair in found)
    assert (names["TOKEN"], names["HOME"]) == (secret, "/given")
    assert (names["N"], names["EMPTY"]) == ("own", "")
    assert b"hunter222" not in rest
    assert rest.split()[-2:] == [b"0", b"1"]


# The build folder


def test_the_build_folder_is_the_working_folder_and_comes_back(subject: Subject):
    result = run(
        subject,
        [
            'test "$PWD" = "$RAI_BUILD_DIR"',
            "echo x > file; mkdir -p a/b; echo '#!' > a/run; chmod 755 a/run;"
            " chmod 640 file; ln -s file link",
        ],
    )
    assert result.codes == [0, 0]
    members = result.members
    assert set(members) == {
        "build",
        "build/file",
        "build/a",
        "build/a/b",
        "build/a/run",
        "build/link",
    }
    assert result.content("build/file") == b"x\n"
    assert stat.S_IMODE(members["build/file"].mode) == 0o640
    assert stat.S_IMODE(members["build/a/run"].mode) == 0o755
    assert members["build/link"].linkname == "file"
    assert members["build/a/b"].isdir()


# The order of commands


def test_the_first_failure_skips_the_rest_unless_the_command_may_fail(
    subject: Subject,
):
    may_fail = shell("exit 5", continue_on_error=True)
    result = run(subject, [may_fail, "echo a", "exit 5", "echo b"])
    assert (result.codes, result.stdout) == ([5, 0, 5], b"a\n")
    assert [s.index for s in result.skipped] == [3]
    assert "command 3 failed" in result.skipped[0].why


def test_a_run_that_writes_nothing_has_a_start_a_usage_and_an_empty_build_folder(
    subject: Subject,
):
    result = run(subject, ["true"])
    assert set(result.members) == {"build"}
    kinds = [type(e) for e in result.events]
    assert kinds.index(Starting) < kinds.index(CommandStarted)
    peak = result.usage.peak_memory_bytes
    assert peak is None or 100_000 < peak < 10_000 * MB


# Further rounds


def rounds(*scripts: str) -> Callable[[], tuple[Step, ...]]:
    """Return a function that has one more round of each of these scripts, in turn."""
    numbers = enumerate(scripts, 1)

    def more() -> tuple[Step, ...]:
        number, script = next(numbers, (0, ""))
        step = replace(shell(script), index=number, repeats=0, round=number)
        return (step,) if script else ()

    return more


def test_further_rounds_run_where_the_first_one_did_and_nothing_between_them(
    subject: Subject,
):
    again = "echo again >> $RAI_BUILD_DIR/kept; wc -l < $RAI_BUILD_DIR/kept"
    result = run(subject, ["echo x > kept"], more=rounds(again, again))
    assert result.codes == [0, 0, 0]
    assert [f.index for f in result.finished] == [0, 1, 2]
    assert result.stdout.split() == [b"2", b"3"]
    assert result.content("build/kept") == b"x\nagain\nagain\n"
    told = [
        event.round
        for event in result.events
        if isinstance(event, (RoundEnded, CommandStarted))
    ]
    assert told == [0, 0, 1, 1, 2, 2]
    kinds = [type(event) for event in result.events]
    assert kinds[kinds.index(RoundEnded) + 1] is CommandStarted


def test_a_failure_in_a_further_round_is_the_end_and_the_build_folder_comes_back(
    subject: Subject,
):
    result = run(subject, ["echo x > kept"], more=rounds("true", "exit 3", "echo no"))
    assert result.codes == [0, 0, 3]
    assert (result.stdout, result.skipped) == (b"", [])
    assert result.content("build/kept") == b"x\n"


def test_the_output_of_all_rounds_together_has_the_limit(subject: Subject):
    script = "head -c 600000 /dev/zero"
    more = rounds(script, script, script)
    result = run(subject, [script], output_bytes=MB, more=more)
    assert [f.reason for f in result.finished] == [None, Reason.OUTPUT_LIMIT]
    assert len(result.stdout) == MB


def test_each_round_has_the_time_of_the_job(subject: Subject):
    # Together seven take longer than the limit, each by far not.
    more = rounds(*["sleep 0.5"] * 6, "sleep 60")
    result = run(subject, ["sleep 0.5"], time_s=3.0, more=more)
    reasons = [f.reason for f in result.finished]
    assert reasons == [*[None] * 7, Reason.TIME_LIMIT]


def test_a_run_that_is_cancelled_between_rounds_starts_no_other(subject: Subject):
    result = run(
        subject, ["echo go"], more=rounds("sleep 0.3; echo go on"), cancel_at=b"go"
    )
    assert len(result.finished) == 1
    assert "build" in result.members


# Limits


def test_a_command_that_takes_too_long_is_ended_and_so_is_the_job(subject: Subject):
    result = run(
        subject,
        ["echo x > before", shell(LONG, timeout_s=0.7), "echo never"],
        keep_going=True,
    )
    assert [f.reason for f in result.finished] == [None, Reason.TIME_LIMIT]
    assert result.finished[1].exit_code != 0
    assert result.finished[1].wall_s > 0.6
    assert "time limit" in result.skipped[0].why
    assert result.content("build/before") == b"x\n"


def test_a_command_may_tidy_up_when_its_time_is_over(subject: Subject):
    script = "trap 'echo bye > tidied; exit 9' TERM; while :; do sleep 0.1; done"
    result = run(subject, [shell(script, timeout_s=0.7)])
    assert result.finished[0].reason is Reason.TIME_LIMIT
    assert result.content("build/tidied") == b"bye\n"


def test_what_is_left_behind_with_the_output_open_holds_nothing_up(subject: Subject):
    left = [f"{LONG} & echo one", f"(setsid {LONG} &) ; echo two", "echo next"]
    result = run(subject, left)
    assert (result.codes, result.stdout) == ([0, 0, 0], b"one\ntwo\nnext\n")


def test_a_cancelled_run_ends_its_command_skips_the_rest_and_gives_back_the_build(
    subject: Subject,
):
    result = run(
        subject,
        [f"echo x > before; echo go; {LONG}", "echo never"],
        keep_going=True,
        cancel_at=b"go",
    )
    assert [f.reason for f in result.finished] == [Reason.CANCELLED]
    assert "cancelled" in result.skipped[0].why
    assert result.content("build/before") == b"x\n"


def test_output_without_end_is_ended_at_the_limit(subject: Subject):
    result = run(subject, ["yes", "echo never"], output_bytes=MB)
    assert [f.reason for f in result.finished] == [Reason.OUTPUT_LIMIT]
    assert len(result.stdout) == MB
    assert len(result.skipped) == 1


def test_a_command_that_ends_before_it_is_stopped_still_met_its_limit(subject: Subject):
    result = run(subject, ["echo hi"], output_bytes=1)
    assert result.stdout == b"h"
    assert [f.reason for f in result.finished] == [Reason.OUTPUT_LIMIT]


def test_the_output_of_all_commands_together_has_the_limit(subject: Subject):
    result = run(subject, ["head -c 600000 /dev/zero"] * 3, output_bytes=MB)
    assert [f.reason for f in result.finished] == [None, Reason.OUTPUT_LIMIT]
    assert len(result.stdout) == MB


# Figures


# What a sandbox keeps a command from


def test_an_engine_has_a_name_and_says_what_it_is(subject: Subject):
    engine: Engine = subject.engine
    assert engine.facts().name == engine.name


# GPUs


def on(stand: StandIn, subject: Subject) -> Subject:
    """The same engine, on a machine with that GPU."""
    engine = copy.copy(subject.engine)
    engine.machine = stand.machine
    return Subject(engine, subject.image)


@pytest.fixture
def gpu_subject(subject: Subject) -> Subject:
    """An engine, with an image that has Python where it has images."""
    return subject


@pytest.fixture
def granted(gpu_subject: Subject) -> tuple[Subject, GpuGrant]:
    """An engine, and a real GPU of this machine by all the ways that it has."""
    situation = gpu_subject.engine.gpus(gpu_subject.image)
    assert situation.any, situation
    return gpu_subject, GpuGrant(situation.gpus[:1], situation.open, situation.driver)


def test_a_run_that_was_given_no_gpu_is_told_to_see_none_and_says_nothing_of_any(
    subject: Subject,
):
    result = run(subject, ["echo [$CUDA_VISIBLE_DEVICES]"])
    assert result.stdout == b"[]\n"
    assert result.gpu_uses == []


def test_what_a_run_was_given_is_told_before_its_commands_and_after_them(
    subject: Subject, tmp_path: Path
):
    stand = stand_in(tmp_path)
    script = "echo $CUDA_VISIBLE_DEVICES"
    result = run(on(stand, subject), [script, "true"], gpu=stand.grant())
    assert result.stdout.decode() == stand.gpu.uuid + "\n"
    told = (GpuGiven, CommandStarted, CommandFinished)
    order = [type(e).__name__[:8] for e in result.events if isinstance(e, told)]
    assert order == ["GpuGiven", *["CommandS", "CommandF"] * 2, "GpuGiven"]
    for use in result.gpu_uses:
        assert (use.way, use.gpus) == (GpuWay.NODES, (stand.gpu,))
        assert use.driver == "580.1"


def test_a_machine_without_a_gpu_says_why_and_what_to_do(subject: Subject):
    situation = subject.engine.gpus(subject.image)
    if situation.any:
        pytest.skip("this machine has a GPU")
    assert situation.problem
    assert situation.hint
    assert all(tried.problem for tried in situation.ways)


@pytest.mark.gpu
@pytest.mark.parametrize("profile", Profile)
def test_cuda_counts_the_granted_gpu_alone_and_has_its_memory_and_pinned_memory(
    granted: tuple[Subject, GpuGrant], profile: Profile
):
    subject, grant = granted
    program = "python3 $RAI_SOURCE_DIR/count.py"
    files = {"count.py": DRIVER_API.encode()}
    if run(subject, ["command -v python3"]).codes != [0]:
        pytest.skip("the image has no python3")
    result = run(subject, [program], files=files, profile=profile, gpu=grant)
    assert result.codes == [0], result.stderr
    count, uuid = result.stdout.decode().split()
    assert count == "1"
    assert re.sub(r"^\w+?-|-", "", grant.gpus[0].uuid) == uuid


@pytest.mark.gpu
def test_a_gpu_that_a_run_holds_is_no_other_runs(granted: tuple[Subject, GpuGrant]):
    subject, grant = granted
    (gpu,) = grant.gpus
    hold = subject.engine.hold
    with hold(gpu, RUN_ID), pytest.raises(BusyError, match=RUN_ID), hold(gpu, "other"):
        pytest.fail("two runs have it")
    with hold(gpu, "other"):
        pass
