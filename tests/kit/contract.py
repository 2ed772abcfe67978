"""What every engine keeps to, run for real.

A test file of an engine says ``from tests.kit.contract import *`` and has a
fixture ``subject`` that gives a running.Subject. Nothing here knows which engine it is.
"""

from __future__ import annotations

import copy
import re
import stat
from pathlib import Path

import pytest

from runner.core import GpuGrant, GpuWay, Profile, Reason
from runner.core.errors import BusyError
from runner.core.events import (
    CommandFinished,
    CommandStarted,
    GpuGiven,
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


def test_each_command_ends_with_its_own_code_and_what_is_no_program_with_127_or_126(
    subject: Subject,
):
    ends = ["exit 0", "exit 3", "exit 255", "kill -9 $$", "kill -11 $$"]
    words = direct("no-such-program-here", "x"), direct("/etc/passwd")
    result = run(subject, [*ends, *words, "echo last"], keep_going=True)
    assert result.codes == [0, 3, 255, 128 + 9, 128 + 11, 127, 126, 0]
    assert {finished.reason for finished in result.finished} == {None}
    assert result.stdout == b"last\n"
    absent, unfit, *_ = result.stderr.split(b"\n")
    assert absent == b"command not found: no-such-program-here"
    assert unfit.startswith(b"cannot run /etc/passwd: ")


# What a command says


def test_bytes_of_each_stream_and_command_arrive_as_they_are(subject: Subject):
    odd = "printf '\\377\\000\\376\\r\\033[1m'"
    result = run(subject, ["echo out; printf err >&2; echo more", odd])
    assert result.said == [b"out\nmore\n", b"\xff\x00\xfe\r\x1b[1m"]
    assert result.stderr == b"err"


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


def test_variables_reach_the_command_beside_the_originals_and_no_command_line(
    subject: Subject,
):
    secret = "a 'b' \"c\"\n$HOME `id` \\ \u00e9 hunter" + "2" * 3
    step = shell("env -0; tr '\\0' ' ' </proc/*/cmdline; wc -c", env=(("N", "own"),))
    secrets = Secrets({"TOKEN": secret, "HOME": "/given"})
    shared = {"N": "1", "HOME": "/all", "EMPTY": "", "MINE": "a b"}

    result = run(subject, [step, "echo $N"], environment=shared, secrets=secrets)

    *found, rest = result.stdout.split(b"\0")
    names = dict(pair.decode().split("=", 1) for pair in found)
    assert (names["TOKEN"], names["HOME"]) == (secret, "/given")
    assert (names["N"], names["EMPTY"]) == ("own", "")
    assert b"hunter222" not in rest
    assert rest.split()[-2:] == [b"0", b"1"]
    assert (names["CI"], names["RAI"], names["TERM"]) == ("rai", "true", "xterm")
    assert names["MINE"] == "a b"
    for folder in ("SOURCE_DIR", "BUILD_DIR", "DATA_DIR"):
        assert names[f"RAI_{folder}"] == names[folder]
    for name in ("RAI_ARCH", "RAI_USER", "SHELL", "LD_LIBRARY_PATH"):
        assert names[name]
    assert "IMAGE_NAME" in names
    assert "/usr/local/cuda/bin" in names["PATH"].split(":")


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


def test_a_run_that_writes_nothing_has_a_usage_an_empty_build_folder_and_no_gpu(
    subject: Subject,
):
    result = run(subject, ["echo [$CUDA_VISIBLE_DEVICES]"])
    assert set(result.members) == {"build"}
    kinds = [type(e) for e in result.events]
    assert kinds.index(Starting) < kinds.index(CommandStarted)
    peak = result.usage.peak_memory_bytes
    assert peak is None or 100_000 < peak < 10_000 * MB
    assert (result.stdout, result.gpu_uses) == (b"[]\n", [])


# Limits


def test_a_command_that_takes_too_long_may_tidy_up_and_is_the_jobs_last(
    subject: Subject,
):
    tidy = "trap 'echo bye > tidied; exit 9' TERM; while :; do sleep 0.1; done"
    steps = ["echo x > before", shell(tidy, timeout_s=0.5), "echo never"]
    result = run(subject, steps, keep_going=True)
    assert [f.reason for f in result.finished] == [None, Reason.TIME_LIMIT]
    assert result.finished[1].exit_code != 0
    assert result.finished[1].wall_s > 0.4
    assert "time limit" in result.skipped[0].why
    assert result.content("build/before") == b"x\n"
    assert result.content("build/tidied") == b"bye\n"


def test_what_is_left_behind_with_the_output_open_holds_nothing_up(subject: Subject):
    result = run(subject, [f"{LONG} & (setsid {LONG} &); echo one"])
    assert (result.codes, result.stdout) == ([0], b"one\n")


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
