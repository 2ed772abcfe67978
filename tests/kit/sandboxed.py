"""What engines keep to that confine, beside contract.py and jobs.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.core import DataMount, GpuGrant, Profile, Reason
from tests.kit.contract import LONG, MB, on
from tests.kit.gpu_standins import stand_in
from tests.kit.running import Subject, data_file, direct, run


def test_a_build_folder_that_grows_too_large_ends_the_job(subject: Subject):
    script = f"head -c 60000000 /dev/zero > big; {LONG}"
    result = run(subject, [script], disk_bytes=20 * MB)
    assert [f.reason for f in result.finished] == [Reason.DISK_LIMIT]


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
    script = "for n in $(seq 100); do sleep 0.3 & done; wait"
    result = run(subject, [direct("sh", "-c", script)], pids=32)
    assert result.finished[0].reason is Reason.PIDS_LIMIT
    assert b"fork" in result.stderr


@pytest.fixture
def confined(subject: Subject) -> Subject:
    if not subject.enforces("isolation"):
        pytest.skip("this engine does not confine")
    return subject


def test_a_command_sees_the_originals_folders_what_is_its_own_and_no_network(
    confined: Subject,
):
    no_gpu = "ls /dev | grep -E '^(nvidia|dxg|dri|kfd)' || echo none"
    connect = "timeout 5 bash -c 'echo > /dev/tcp/{}'"
    lines = [
        "cat /proc/net/dev",
        *(connect.format(at) for at in ("192.0.2.1/80", "127.0.0.1/9")),
        "grep -E '^(CapPrm|CapEff|NoNewPrivs)' /proc/self/status; id -u",
        "echo $RAI_SOURCE_DIR $RAI_BUILD_DIR $RAI_DATA_DIR; pwd",
        "ls -d /proc/[0-9]* | wc -l",
        direct("ls", "/proc/self/fd"),
        no_gpu,
        "nvidia-smi",
    ]
    result = run(confined, lines, keep_going=True)
    network, _, _, rights, folders, processes, files, *gpus = result.said
    devices = [line.split(b":")[0].strip() for line in network.splitlines()[2:]]
    assert devices == [b"lo"]
    assert result.codes[:3] == [0, 1, 1]
    assert b"refused" in result.stderr
    assert rights.split()[1::2] == [b"0" * 16, b"0" * 16, b"1"]
    assert rights.split()[-1] != b"0"
    assert folders == b"/src /build /data\n/build\n"
    assert int(processes) < 12
    assert files.split() == [b"0", b"1", b"2", b"3"]
    assert gpus == [b"none\n", b""]


def test_source_root_and_data_cannot_be_written_in_the_strict_profile(
    confined: Subject, tmp_path: Path
):
    file = data_file(tmp_path / "set.bin", b"figures")
    writes = [
        "echo x > /src/new || echo x > /src/hello.txt || rm /src/hello.txt",
        "echo x > /new || echo x > /usr/new",
        "echo x > /data/some/set.bin || rm /data/some/*",
        "cat /src/hello.txt /data/some/set.bin",
    ]
    mount = DataMount("/data/some", (file,))
    result = run(confined, writes, data=[mount], keep_going=True)
    assert 0 not in result.codes[:3]
    assert result.stdout == b"hello\nfigures"
    assert file.path.read_bytes() == b"figures"


def test_the_source_folder_is_a_writable_copy_in_the_compatible_profile(
    confined: Subject,
):
    result = run(
        confined,
        ["echo more >> /src/hello.txt; echo x > /src/new; cat /src/hello.txt"],
        profile=Profile.COMPATIBLE,
    )
    assert (result.codes, result.stdout) == ([0], b"hello\nmore\n")


def test_a_strict_run_with_a_gpu_is_not_root_and_can_never_become_it(
    confined: Subject, tmp_path: Path
):
    script = (
        "id -u; grep -E '^(CapPrm|CapEff|NoNewPrivs)' /proc/self/status;"
        " (echo x > /new || echo x > /src/new || mknod /build/n c 1 3) 2>/dev/null"
        " && echo open; grep -v lo: /proc/net/dev | wc -l"
    )
    stand = stand_in(tmp_path)
    result = run(on(stand, confined), [script], gpu=stand.grant())
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
