"""What every engine keeps to, run for real.

A test file of an engine says ``from tests.runner.engines.contract import *`` and has a
fixture ``subject`` that gives a running.Subject. Nothing here knows which engine it is.
"""

from __future__ import annotations

import copy
import hashlib
import re
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import (
    DataFile,
    DataMount,
    GpuGrant,
    GpuWay,
    Profile,
    Reason,
    Step,
)
from runner.core.errors import BusyError
from runner.core.events import (
    CommandFinished,
    CommandStarted,
    GpuGiven,
    RoundEnded,
    Starting,
)
from runner.core.variables import Secrets
from runner.engines.base import Engine
from tests.runner.engines.gpus import DRIVER_API, StandIn, stand_in
from tests.runner.engines.running import RUN_ID, Subject, direct, run, shell

MB = 1_000_000
NUMBERS_SHA256 = "9b91e64c038c9063b2ccbf5568316c4e085b908a0d4e1e778e5db039d8b2370c"
"""Of the lines from 1 to 12,000,000."""


# How a command ends


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_an_exit_code_arrives_as_it_is(subject: Subject, code: int):
    result = run(subject, [f"exit {code}"])
    assert result.codes == [code]
    assert result.finished[0].reason is None


def test_a_program_that_does_not_exist_ends_with_127_and_is_named(subject: Subject):
    result = run(subject, [direct("no-such-program-here", "x")])
    assert result.codes == [127]
    assert result.stderr == b"command not found: no-such-program-here\n"


def test_a_file_that_is_no_program_ends_with_126(subject: Subject):
    result = run(subject, [direct("/etc/passwd")])
    assert result.codes == [126]
    assert result.stderr.startswith(b"cannot run /etc/passwd: ")


def test_a_signal_ends_with_128_and_its_number(subject: Subject):
    assert run(subject, ["kill -9 $$"]).codes == [137]
    assert run(subject, ["kill -11 $$"]).codes == [139]


# What a command says


def test_stdout_and_stderr_stay_apart(subject: Subject):
    result = run(subject, ["echo out; echo err >&2; echo more"])
    assert (result.stdout, result.stderr) == (b"out\nmore\n", b"err\n")


def test_a_last_line_without_a_newline_arrives_without_one(subject: Subject):
    result = run(subject, ["printf 'a\\nb'", "printf c >&2"])
    assert (result.stdout, result.stderr) == (b"a\nb", b"c")


def test_bytes_that_are_no_text_arrive_as_they_are(subject: Subject):
    result = run(subject, ["printf '\\377\\000\\376\\r\\033[1m'"])
    assert result.stdout == b"\xff\x00\xfe\r\x1b[1m"


def test_output_of_each_command_carries_its_index(subject: Subject):
    result = run(subject, ["echo one", "echo two >&2"])
    kinds = [type(e).__name__ for e in result.events]
    first = kinds.index("Output")
    second = kinds.index("Output", first + 1)
    assert result.events[first].index == 0
    assert result.events[second].index == 1


def test_a_hundred_megabytes_of_lines_arrive_whole_and_in_order(subject: Subject):
    found = run(subject, ["seq 12000000"]).stdout
    assert len(found) > 96 * MB
    assert hashlib.sha256(found).hexdigest() == NUMBERS_SHA256


def test_a_line_of_a_hundred_megabytes_arrives_whole(subject: Subject):
    result = run(subject, ["head -c 100000000 /dev/zero | tr '\\0' x"])
    assert result.stdout.count(b"x") == len(result.stdout) == 100 * MB


def test_output_comes_while_the_command_runs(subject: Subject):
    result = run(subject, ["echo now; sleep 1.5; echo then"])
    outputs = [type(e).__name__ for e in result.events]
    between = outputs[outputs.index("Output") + 1 :]
    assert "Tick" in between[: between.index("Output")]


def test_a_silent_command_ticks_every_second(subject: Subject):
    elapsed_s = [tick.elapsed_s for tick in run(subject, ["sleep 2.5"]).ticks]
    assert elapsed_s
    assert all(later - before > 0.9 for before, later in pairwise([0, *elapsed_s]))


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


def test_a_command_has_no_terminal_and_an_empty_stdin(subject: Subject):
    script = "test -t 0 || test -t 1 || test -t 2 || echo none; wc -c"
    assert run(subject, [script]).stdout.split() == [b"none", b"0"]


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


def test_a_program_that_asks_who_runs_it_gets_a_name(subject: Subject):
    ask = "import getpass; print(getpass.getuser())"
    result = run(subject, [f'python3 -c "{ask}" || echo $LOGNAME', "echo $USER"])
    name, again = result.stdout.split()
    assert name == again


def test_the_project_is_found_in_the_source_folder(subject: Subject):
    result = run(
        subject, ["cat $RAI_SOURCE_DIR/hello.txt; sh $RAI_SOURCE_DIR/sub/run.sh"]
    )
    assert result.stdout == b"hello\nran\n"


def test_home_and_tmp_can_be_written_and_tmp_lasts_for_the_job(subject: Subject):
    file = '"${TMPDIR:-/tmp}/kept"'
    result = run(
        subject, [f"mkdir -p $HOME && test -w $HOME && echo x > {file}", f"cat {file}"]
    )
    assert (result.codes, result.stdout) == ([0, 0], b"x\n")


def test_a_shell_line_is_read_by_a_shell_and_a_direct_one_is_not(subject: Subject):
    result = run(
        subject,
        [direct("printf", "%s;", "$HOME", "*", "a b"), "echo a | tr a b && echo c"],
    )
    assert result.stdout == b"$HOME;*;a b;b\nc\n"


def test_a_pipe_fails_where_any_part_of_it_fails(subject: Subject):
    assert run(subject, ["false | true"]).codes == [1]


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


def test_the_build_folder_lasts_from_command_to_command(subject: Subject):
    assert run(subject, ["echo kept > f", "cat f"]).stdout == b"kept\n"


def test_the_build_folder_comes_back_after_a_failure_too(subject: Subject):
    result = run(subject, ["echo x > before; exit 4"])
    assert result.content("build/before") == b"x\n"


def test_an_empty_build_folder_comes_back_as_one(subject: Subject):
    assert set(run(subject, ["true"]).members) == {"build"}


# The order of commands


def test_the_first_failure_skips_the_rest_and_says_why(subject: Subject):
    result = run(subject, ["echo a", "exit 5", "echo b"])
    assert (result.codes, result.stdout) == ([0, 5], b"a\n")
    assert [s.index for s in result.skipped] == [2]
    assert "command 2 failed" in result.skipped[0].why


def test_keep_going_runs_all_of_them(subject: Subject):
    result = run(subject, ["exit 5", "echo b"], keep_going=True)
    assert (result.codes, result.stdout) == ([5, 0], b"b\n")


def test_a_command_may_fail_where_it_says_so(subject: Subject):
    result = run(subject, [shell("exit 5", continue_on_error=True), "echo b"])
    assert (result.codes, result.stdout) == ([5, 0], b"b\n")


def test_a_run_starts_before_its_first_command_and_says_its_usage_at_the_end(
    subject: Subject,
):
    result = run(subject, ["true"])
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


def test_further_rounds_run_where_the_first_one_did(subject: Subject):
    again = "echo again >> $RAI_BUILD_DIR/kept; wc -l < $RAI_BUILD_DIR/kept"
    result = run(subject, ["echo x > kept"], more=rounds(again, again))
    assert result.codes == [0, 0, 0]
    assert [f.index for f in result.finished] == [0, 1, 2]
    assert result.stdout.split() == [b"2", b"3"]
    assert result.content("build/kept") == b"x\nagain\nagain\n"


def test_nothing_runs_between_a_rounds_end_and_the_next_event(subject: Subject):
    result = run(subject, ["true"], more=rounds("echo one", "echo two"))
    told = [
        event.round
        for event in result.events
        if isinstance(event, (RoundEnded, CommandStarted))
    ]
    assert told == [0, 0, 1, 1, 2, 2]
    kinds = [type(event) for event in result.events]
    first = kinds.index(RoundEnded)
    assert kinds[first + 1] is CommandStarted


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
        ["echo x > before", shell("sleep 60", timeout_s=0.7), "echo never"],
        keep_going=True,
    )
    assert [f.reason for f in result.finished] == [None, Reason.TIME_LIMIT]
    assert result.finished[1].exit_code != 0
    assert 0.6 < result.finished[1].wall_s < 10
    assert "time limit" in result.skipped[0].why
    assert result.content("build/before") == b"x\n"


def test_the_time_of_the_job_is_that_of_all_its_commands(subject: Subject):
    result = run(subject, ["sleep 0.8", "sleep 60", "echo never"], time_s=2.0)
    assert [f.reason for f in result.finished] == [None, Reason.TIME_LIMIT]
    assert result.wall_s < 20


def test_a_command_may_tidy_up_when_its_time_is_over(subject: Subject):
    script = "trap 'echo bye > tidied; exit 9' TERM; while :; do sleep 0.1; done"
    result = run(subject, [shell(script, timeout_s=0.7)])
    assert result.finished[0].reason is Reason.TIME_LIMIT
    assert result.content("build/tidied") == b"bye\n"


def test_a_command_that_ignores_the_request_to_end_is_killed(subject: Subject):
    script = "trap '' TERM; while :; do sleep 0.1; done"
    result = run(subject, [shell(script, timeout_s=0.5)], stop_grace_s=1.0)
    assert result.finished[0].reason is Reason.TIME_LIMIT
    assert result.wall_s < 20


def test_a_child_left_behind_with_the_output_open_holds_nothing_up(subject: Subject):
    result = run(subject, ["sleep 60 & echo started", "echo next"])
    assert (result.codes, result.stdout) == ([0, 0], b"started\nnext\n")
    assert result.wall_s < 20


def test_a_daemon_left_behind_holds_nothing_up(subject: Subject):
    result = run(subject, ["(setsid sleep 60 &) ; echo started", "echo next"])
    assert (result.codes, result.stdout) == ([0, 0], b"started\nnext\n")
    assert result.wall_s < 20


def test_a_cancelled_run_ends_its_command_skips_the_rest_and_gives_back_the_build(
    subject: Subject,
):
    result = run(
        subject,
        ["echo x > before; echo go; sleep 60", "echo never"],
        keep_going=True,
        cancel_at=b"go",
    )
    assert [f.reason for f in result.finished] == [Reason.CANCELLED]
    assert "cancelled" in result.skipped[0].why
    assert result.content("build/before") == b"x\n"
    assert result.wall_s < 20


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


def test_a_build_folder_that_grows_too_large_ends_the_job(subject: Subject):
    script = "head -c 60000000 /dev/zero > big; sleep 60"
    result = run(subject, [script], disk_bytes=20 * MB)
    assert [f.reason for f in result.finished] == [Reason.DISK_LIMIT]
    assert result.wall_s < 30


def test_a_command_that_takes_too_much_memory_is_killed(subject: Subject):
    if not subject.enforces("memory"):
        pytest.skip("this engine cannot limit memory here")
    result = run(
        subject, ["head -c 400000000 /dev/zero | tail"], memory_bytes=100 << 20
    )
    assert result.finished[0].reason is Reason.MEMORY_LIMIT
    assert result.finished[0].oom_killed
    assert result.finished[0].exit_code == 137


def test_more_processes_than_allowed_cannot_be_started(subject: Subject):
    if not subject.enforces("pids"):
        pytest.skip("this engine cannot limit processes here")
    script = "for n in $(seq 100); do sleep 1 & done; wait"
    result = run(subject, [direct("sh", "-c", script)], pids=32)
    assert result.finished[0].exit_code != 0
    assert b"fork" in result.stderr


def test_a_run_has_no_network(subject: Subject):
    if not subject.enforces("network"):
        pytest.skip("this engine cannot take the network away")
    result = run(subject, ["cat /proc/net/dev"])
    devices = [line.split(b":")[0].strip() for line in result.stdout.splitlines()[2:]]
    assert devices == [b"lo"]
    away = "timeout 5 bash -c 'echo > /dev/tcp/192.0.2.1/80'"
    assert run(subject, [away]).codes == [1]


def test_the_loopback_device_works_without_a_network(subject: Subject):
    if not subject.enforces("network"):
        pytest.skip("this engine cannot take the network away")
    here = "timeout 5 bash -c 'echo > /dev/tcp/127.0.0.1/9'"
    assert b"refused" in run(subject, [here]).stderr


# Figures


def test_wall_and_processor_time_are_those_of_the_command(subject: Subject):
    busy = "n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done"
    idle, working = run(subject, ["sleep 1", busy]).finished
    assert 1.0 <= idle.wall_s < 5
    assert idle.cpu_s is not None
    assert idle.cpu_s < 0.5
    assert working.cpu_s is not None
    assert 0.05 < working.cpu_s <= working.wall_s * 2 + 0.5


# What a sandbox keeps a command from


@pytest.fixture
def confined(subject: Subject) -> Subject:
    if not subject.enforces("isolation"):
        pytest.skip("this engine does not confine")
    return subject


def test_the_folders_are_those_of_the_original(confined: Subject):
    result = run(confined, ["echo $RAI_SOURCE_DIR $RAI_BUILD_DIR $RAI_DATA_DIR; pwd"])
    assert result.stdout == b"/src /build /data\n/build\n"


def test_the_source_folder_cannot_be_written_in_the_strict_profile(confined: Subject):
    script = "echo x > /src/new || echo x > /src/hello.txt || rm /src/hello.txt"
    result = run(confined, [script, "cat /src/hello.txt"], keep_going=True)
    assert result.codes[0] != 0
    assert result.stdout == b"hello\n"


def test_the_source_folder_is_a_writable_copy_in_the_compatible_profile(
    confined: Subject,
):
    result = run(
        confined,
        ["echo more >> /src/hello.txt; echo x > /src/new; cat /src/hello.txt"],
        profile=Profile.COMPATIBLE,
    )
    assert (result.codes, result.stdout) == ([0], b"hello\nmore\n")


def test_data_is_seen_read_only(confined: Subject, tmp_path: Path):
    file = tmp_path / "set.bin"
    file.write_bytes(b"figures")
    md5 = hashlib.md5(b"figures", usedforsecurity=False).hexdigest()
    mount = DataMount("/data/some", (DataFile("set.bin", file, md5, 7),))
    result = run(
        confined,
        ["cat /data/some/set.bin", "echo x > /data/some/set.bin", "rm /data/some/*"],
        data=[mount],
        keep_going=True,
    )
    assert result.stdout == b"figures"
    assert result.codes[0] == 0
    assert 0 not in result.codes[1:]
    assert file.read_bytes() == b"figures"


def test_a_strict_run_is_not_root_and_can_never_become_it(confined: Subject):
    script = "id -u; grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status"
    uid, *rows = run(confined, [script]).stdout.decode().splitlines()
    assert uid != "0"
    values = dict(row.split(":\t") for row in rows)
    assert int(values["CapPrm"], 16) == int(values["CapEff"], 16) == 0
    assert values["NoNewPrivs"] == "1"


def test_the_root_cannot_be_written(confined: Subject):
    result = run(confined, ["echo x > /new", "echo x > /usr/new"], keep_going=True)
    assert 0 not in result.codes


def test_a_command_sees_its_own_processes_alone(confined: Subject):
    result = run(confined, ["ls -d /proc/[0-9]* | wc -l"])
    assert int(result.stdout) < 12


def test_a_command_starts_with_no_open_files_but_its_three(confined: Subject):
    result = run(confined, [direct("ls", "/proc/self/fd")])
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]


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


def test_a_run_that_was_given_no_gpu_has_no_device_file_of_one(confined: Subject):
    script = "ls /dev | grep -E '^(nvidia|dxg|dri|kfd)' || echo none"
    assert run(confined, [script, "nvidia-smi"], keep_going=True).stdout == b"none\n"


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


def test_a_run_has_its_gpus_device_files_alone_and_the_drivers_own_files_read_only(
    confined: Subject, tmp_path: Path
):
    stand = stand_in(tmp_path)
    (common,), (own,) = stand.machine.nodes, stand.gpu.nodes
    find = (
        'for d in $(echo $LD_LIBRARY_PATH | tr : " "); do ls $d/libstandin.so.1; done'
    )
    result = run(
        on(stand, confined),
        [
            f"test -c {common} && test -c {own} && test ! -e {stand.other}",
            "gpu-program",
            f'library=$({find} 2>/dev/null); cat $library; echo x > "$library"',
        ],
        gpu=stand.grant(),
        keep_going=True,
    )
    assert result.codes[:2] == [0, 0], result.stderr
    assert result.stdout == b"a program\nof the driver\n"
    assert result.codes[2] != 0
    assert stand.driver_file.read_text() == "of the driver\n"


def test_a_strict_run_gives_up_nothing_of_its_confinement_for_a_gpu(
    confined: Subject, tmp_path: Path
):
    stand = stand_in(tmp_path)
    script = (
        "id -u; grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status;"
        " (echo x > /new || echo x > /src/new || mknod /build/n c 1 3) 2>/dev/null"
        " && echo open; grep -v lo: /proc/net/dev | wc -l"
    )
    result = run(on(stand, confined), [script], gpu=stand.grant())
    uid, *rows, devices = result.stdout.decode().split("\n")[:-1]
    values = dict(row.split(":\t") for row in rows)
    assert uid != "0"
    assert {int(v, 16) for k, v in values.items() if k[:3] == "Cap"} == {0}
    assert values["NoNewPrivs"] == "1"
    assert devices == "2"  # the table's head


def test_a_machine_without_a_gpu_says_why_and_what_to_do(subject: Subject):
    situation = subject.engine.gpus(subject.image)
    if situation.any:
        pytest.skip("this machine has a GPU")
    assert situation.problem
    assert situation.hint
    assert all(tried.problem for tried in situation.ways)


@pytest.mark.gpu
def test_nvidia_smi_lists_the_granted_gpu_and_no_other(
    confined: Subject, granted: tuple[Subject, GpuGrant]
):
    subject, grant = granted
    result = run(subject, ["nvidia-smi -L"], gpu=grant)
    assert result.codes == [0], result.stderr
    listed = re.findall(r"UUID: ([^)]+)", result.stdout.decode())
    (gpu,) = grant.gpus
    assert set(listed) <= {gpu.uuid, gpu.parent}
    assert gpu.uuid in listed
    before, after = result.gpu_uses
    assert before.way in grant.ways
    for states in (before.before, after.after):
        (state,) = states
        assert (state.uuid, state.problem) == (gpu.uuid, "")
        assert state.temperature_c
        assert state.sm_clock_mhz


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
