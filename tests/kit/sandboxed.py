"""What engines keep to that confine, beside contract.py, and what takes long to see.

The bare engine runs commands by the code of the local one, so what takes long is left
to that.
"""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from pathlib import Path

import pytest

from runner.core import DataMount, GpuGrant, Profile, Reason
from tests.kit.contract import LONG, MB, on
from tests.kit.gpu_standins import stand_in
from tests.kit.running import Subject, data_file, direct, run, shell

NUMBERS_SHA256 = "897fe3cdf6a32c5d6d5cf2c490420f67f6f2a962f383662ebf7a842b7a9325c9"
"""Of the lines from 1 to 4,000,000."""


def test_a_build_folder_that_grows_too_large_ends_the_job(subject: Subject):
    script = f"head -c 60000000 /dev/zero > big; {LONG}"
    result = run(subject, [script], disk_bytes=20 * MB)
    assert [f.reason for f in result.finished] == [Reason.DISK_LIMIT]


def test_a_command_that_ignores_the_request_to_end_is_killed(subject: Subject):
    script = "trap '' TERM; while :; do sleep 0.1; done"
    result = run(subject, [shell(script, timeout_s=0.5)], stop_grace_s=1.0)
    assert result.finished[0].reason is Reason.TIME_LIMIT


def test_lines_and_one_line_of_thirty_megabytes_arrive_whole_and_in_order(
    subject: Subject,
):
    long = "head -c 30000000 /dev/zero | tr '\\0' x"
    numbers, line = run(subject, ["seq 4000000", long]).said
    assert len(numbers) > 30 * MB
    assert hashlib.sha256(numbers).hexdigest() == NUMBERS_SHA256
    assert line.count(b"x") == len(line) == 30 * MB


def test_a_silent_command_ticks_every_second_between_what_it_says(subject: Subject):
    result = run(subject, ["echo now; sleep 2.5; echo then"])
    elapsed_s = [tick.elapsed_s for tick in result.ticks]
    assert all(later - before > 0.9 for before, later in pairwise([0, *elapsed_s]))
    kinds = [type(event).__name__ for event in result.events]
    between = kinds[kinds.index("Output") + 1 :]
    assert "Tick" in between[: between.index("Output")]


def test_the_time_of_the_job_is_that_of_all_its_commands(subject: Subject):
    result = run(subject, ["sleep 0.8", LONG, "echo never"], time_s=2.0)
    assert [f.reason for f in result.finished] == [None, Reason.TIME_LIMIT]


def test_wall_and_processor_time_are_those_of_the_command(subject: Subject):
    busy = "n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done"
    idle, working = run(subject, ["sleep 1", busy]).finished
    assert idle.wall_s >= 1.0
    assert idle.cpu_s is not None
    assert idle.cpu_s < 0.5
    assert working.cpu_s is not None
    assert 0.05 < working.cpu_s <= working.wall_s * 2 + 0.5


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
    connect = "timeout 5 bash -c 'echo > /dev/tcp/{}'"
    there = [connect.format(at) for at in ("192.0.2.1/80", "127.0.0.1/9")]
    result = run(subject, ["cat /proc/net/dev", *there], keep_going=True)
    devices = [line.split(b":")[0].strip() for line in result.stdout.splitlines()[2:]]
    assert devices == [b"lo"]
    assert result.codes == [0, 1, 1]
    assert b"refused" in result.stderr


@pytest.fixture
def confined(subject: Subject) -> Subject:
    if not subject.enforces("isolation"):
        pytest.skip("this engine does not confine")
    return subject


def test_a_command_sees_the_folders_of_the_original_and_its_own_processes_and_files(
    confined: Subject,
):
    no_gpu = "ls /dev | grep -E '^(nvidia|dxg|dri|kfd)' || echo none"
    lines = [
        "echo $RAI_SOURCE_DIR $RAI_BUILD_DIR $RAI_DATA_DIR; pwd",
        "ls -d /proc/[0-9]* | wc -l",
        direct("ls", "/proc/self/fd"),
        no_gpu,
        "nvidia-smi",
    ]
    folders, processes, files, *gpus = run(confined, lines, keep_going=True).said
    assert folders == b"/src /build /data\n/build\n"
    assert int(processes) < 12
    assert files.split() == [b"0", b"1", b"2", b"3"]
    assert gpus == [b"none\n", b""]


def test_neither_the_source_folder_nor_the_root_can_be_written_in_the_strict_profile(
    confined: Subject,
):
    writes = [
        "echo x > /src/new || echo x > /src/hello.txt || rm /src/hello.txt",
        "echo x > /new",
        "echo x > /usr/new",
    ]
    result = run(confined, [*writes, "cat /src/hello.txt"], keep_going=True)
    assert 0 not in result.codes[:3]
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
    file = data_file(tmp_path / "set.bin", b"figures")
    mount = DataMount("/data/some", (file,))
    result = run(
        confined,
        ["cat /data/some/set.bin", "echo x > /data/some/set.bin", "rm /data/some/*"],
        data=[mount],
        keep_going=True,
    )
    assert result.stdout == b"figures"
    assert result.codes[0] == 0
    assert 0 not in result.codes[1:]
    assert file.path.read_bytes() == b"figures"


@pytest.mark.parametrize("with_gpu", [False, True])
def test_a_strict_run_is_not_root_and_can_never_become_it_for_a_gpu_neither(
    confined: Subject, with_gpu: bool, tmp_path: Path
):
    script = (
        "id -u; grep -E '^(CapPrm|CapEff|NoNewPrivs)' /proc/self/status;"
        " (echo x > /new || echo x > /src/new || mknod /build/n c 1 3) 2>/dev/null"
        " && echo open; grep -v lo: /proc/net/dev | wc -l"
    )
    if with_gpu:
        stand = stand_in(tmp_path)
        result = run(on(stand, confined), [script], gpu=stand.grant())
    else:
        result = run(confined, [script])
    uid, *rows, devices = result.stdout.decode().splitlines()
    values = dict(row.split(":\t") for row in rows)
    assert uid != "0"
    assert int(values["CapPrm"], 16) == int(values["CapEff"], 16) == 0
    assert values["NoNewPrivs"] == "1"
    assert devices == "2"  # the table's head


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
