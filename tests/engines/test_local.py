"""The local engine, with each sandbox that this machine has."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runner.core import BuildSpec, DataMount, Reason, Workspace
from runner.core.errors import Cancel, EngineError
from runner.core.events import Output
from runner.engines.local import LocalEngine, sandbox
from tests.kit import jobs, needs, refused_calls
from tests.kit.contract import *  # noqa: F403 - the tests are the contract's
from tests.kit.jobs import *  # noqa: F403 - the same
from tests.kit.ordinary import USER, as_ordinary_user
from tests.kit.program import run_program
from tests.kit.running import (
    RUN_ID,
    SOURCE,
    Subject,
    data_file,
    long_sleep,
    run,
    shell,
    source,
)
from tests.kit.sandboxed import *  # noqa: F403 - the same
from tests.kit.waiting import running, until

pytestmark = pytest.mark.local

ROOT = Path(__file__).resolve().parents[2]
NUMPY = "python -c 'import numpy, sys; print(numpy.ones(3).sum(), sys.prefix)'"
REFUSED = Path(refused_calls.__file__)
ONE_RUN = [sys.executable, "-m", "tests.kit.one_run"]

on_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="its numbers")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is of jobs in the first sandbox, all else in each."""
    if "kind" in metafunc.fixturenames:
        of_jobs = metafunc.function.__module__ == jobs.__name__
        metafunc.parametrize("kind", needs.SANDBOXES[: 1 if of_jobs else None])


@pytest.fixture
def subject(kind: str) -> Subject:
    return Subject(LocalEngine(kind=kind))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place for temporary folders."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_python_is_the_one_that_runs_rai_with_its_packages(subject: Subject):
    result = run(subject, [NUMPY, "python3 -c 'import sys; print(sys.prefix)'"])
    assert result.stdout.decode().split() == ["3.0", *[sys.prefix] * 2], result.stderr


def test_gnu_time_is_at_its_place_where_the_machine_has_none(kind: str, tmp_path: Path):
    subject = Subject(LocalEngine(kind=kind, time=tmp_path / "no-time"))
    line = "/usr/bin/time -f 'took %e' python -c pass; ls -l /usr/bin/env"
    result = run(subject, [line, "/usr/bin/time -p sh -c 'exit 3'"])
    assert result.codes == [0, 3]
    took, status, *figures = result.stderr.decode().splitlines()
    assert took.startswith("took 0.")
    assert status == "Command exited with non-zero status 3"
    assert [figure.split()[0] for figure in figures] == ["real", "user", "sys"]


def test_gnu_time_is_named_anew_where_nothing_can_be_laid_over(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    found = sandbox.Sandbox(kind, sandbox.find(kind).sandbox.owner, "named")
    monkeypatch.setattr(LocalEngine, "_search", lambda _: sandbox.Search(found))
    result = run(
        Subject(LocalEngine()),
        ["bash -c '/usr/bin/time -f \"took %e\" sleep 0.1 && echo done'"],
    )
    assert result.stdout == b"done\n"
    assert float(result.stderr.split()[1]) >= 0.1


def test_the_hosts_programs_are_seen_and_its_files_are_not(
    subject: Subject, tmp_path: Path
):
    secret = tmp_path / "secret"
    secret.write_text("password")
    line = f"cat {secret}; ls -A /home /root /mnt; test -x /usr/bin/env && echo seen"
    result = run(subject, [line])
    assert b"seen" in result.stdout
    assert b"password" not in result.stdout
    assert str(ROOT).encode() not in result.stdout


def test_the_first_process_tells_nothing_of_the_callers_environment(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MY_TOKEN", "password")
    result = run(subject, ["cat /proc/*/environ", "env"], keep_going=True)
    assert b"password" not in result.stdout


def test_names_in_the_environment_do_not_lead_the_sandboxs_own_programs_astray(
    subject: Subject,
):
    result = run(
        subject,
        ["/bin/echo hi"],
        environment={"LD_PRELOAD": "/build/none.so", "PYTHONHOME": "/nowhere"},
    )
    assert result.stdout == b"hi\n"


def test_a_folder_of_tmp_is_not_that_of_the_host(subject: Subject, scratch: Path):
    with tempfile.NamedTemporaryFile(dir="/tmp") as theirs:
        mine = Path(f"{theirs.name}-mine")
        line = f"ls {theirs.name} || echo x > {mine}"
        assert run(subject, [line]).codes == [0]
    assert not mine.exists()


def test_shared_memory_and_devices_are_there(subject: Subject):
    line = "echo x > /dev/shm/y && head -c 4 /dev/urandom > /dev/null && ls /dev/pts"
    assert run(subject, [line]).codes == [0]


def test_shared_memory_ends_at_its_limit(subject: Subject):
    line = "head -c 3000000 /dev/zero > /dev/shm/x"
    assert run(subject, [line], shm_bytes=1 << 20).codes != [0]


def test_files_core_dumps_and_open_files_have_limits(subject: Subject):
    result = run(
        subject,
        ["ulimit -c; ulimit -n", "head -c 3000000 /dev/zero > /build/x"],
        open_files=100,
        file_bytes=1 << 20,
    )
    assert result.stdout.split() == [b"0", b"100"]
    assert result.codes[1] == 153
    assert result.members["build/x"].size == 1 << 20


def test_without_a_network_the_hosts_own_is_not_reached(subject: Subject):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"bash -c 'echo > /dev/tcp/127.0.0.1/{port}'"
        result = run(subject, [line])
    assert result.codes[0] == 1


@pytest.mark.root
def test_data_that_only_root_may_read_is_given(subject: Subject, tmp_path: Path):
    file = data_file(tmp_path / "x", b"figures")
    file.path.chmod(0o600)
    mount = DataMount("/data", (file,))
    assert run(subject, ["cat /data/x"], data=[mount]).stdout == b"figures"


def test_a_data_file_of_the_project_is_given_as_it_was_verified(
    subject: Subject, tmp_path: Path
):
    file = tmp_path / "project" / "x"
    file.parent.mkdir()
    mount = DataMount("/data", (data_file(file, b"figures", file.parent),))
    assert run(subject, ["cat /data/x"], data=[mount]).stdout == b"figures"

    secret = tmp_path / "secret"
    secret.write_bytes(b"figures")
    file.unlink()
    file.symlink_to(secret)
    with pytest.raises(EngineError, match="leads out"):
        run(subject, ["cat /data/x"], data=[mount])


def leftovers(scratch: Path) -> list[str]:
    groups = [  # walked, as groups of other tests come and go
        f"{folder}/{name}"
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in names
        if name.startswith(f"rai-{RUN_ID}-")
    ]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [
        *map(str, scratch.iterdir()),
        *groups,
        *[line for line in mounts if str(scratch) in line],
    ]


def test_nothing_is_left_of_a_run(subject: Subject, scratch: Path):
    sleep = long_sleep()
    run(subject, [f"mkdir -p a/b; touch a/b/c; chmod 0 a/b; (setsid {sleep} &)"])
    assert leftovers(scratch) == []
    assert running(sleep) == []


def test_nothing_is_left_where_the_reader_goes_away(subject: Subject, scratch: Path):
    sleep = long_sleep()
    work = Workspace(RUN_ID, (shell(f"echo x; {sleep}"),), source(SOURCE))
    events = subject.engine.run(work, Cancel())
    next(event for event in events if isinstance(event, Output))
    events.close()
    assert leftovers(scratch) == []
    assert running(sleep) == []


def test_a_killed_rai_takes_its_commands_along(kind: str, scratch: Path):
    line = long_sleep()
    program = [*ONE_RUN, kind, "/usr/bin/time", line]
    env = os.environ | {"TMPDIR": str(scratch)}
    process = subprocess.Popen(program, cwd=ROOT, env=env)
    until(lambda: running(line))
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not running(line))
    run(Subject(LocalEngine(kind=kind)), ["true"])
    assert leftovers(scratch) == []


def test_a_sandbox_that_cannot_stand_is_an_error_of_the_engine(
    subject: Subject, tmp_path: Path
):
    mount = DataMount("/usr/share/none/here", (data_file(tmp_path / "x", b"x"),))
    with pytest.raises(EngineError, match="sandbox"):
        run(subject, ["true"], data=[mount])


def test_a_sandbox_that_does_not_exist_is_a_problem_with_a_remedy():
    engine = LocalEngine(kind="unshare")
    lost = sandbox.Search(None, ("unshare: not allowed",))
    engine._search = lambda: lost  # type: ignore[method-assign]
    (problem,) = engine.check(BuildSpec("rai_build.yml"))
    assert "not allowed" in problem.message
    assert "bubblewrap" in problem.hint


def served(
    kind: str,
    line: str,
    time: str = "/usr/bin/time",
    disk: str = "",
    group: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a line as an ordinary user; nothing stays in the user's home."""
    home = Path(tempfile.mkdtemp(prefix="rai-test-home-", dir="/tmp"))
    os.chown(home, int(USER), int(USER))
    program = [*ONE_RUN, kind, time, line, *([disk] if disk else [])]
    try:
        done = as_ordinary_user(program, home, group=group)
        assert list(home.iterdir()) == []
    finally:
        shutil.rmtree(home)
    return done


@pytest.mark.root
def test_an_ordinary_user_is_served_as_well_where_there_is_no_gnu_time(kind: str):
    line = f"id -u; {NUMPY}; /usr/bin/time -f 'took %e' true; touch /src/x || echo ro"
    done = served(kind, line, "/no/such/time")
    assert done.stdout.split() == [USER, "3.0", sys.prefix, "ro"], done.stderr
    assert "took 0." in done.stderr


@pytest.mark.root
def test_what_an_ordinary_users_groups_may_read_in_etc_is_hidden(kind: str):
    secret = Path("/etc/shadow")
    if not secret.exists() or not secret.stat().st_mode & 0o040:
        pytest.skip("no file of a group here")
    group = secret.stat().st_gid
    home = Path(tempfile.mkdtemp(prefix="rai-test-home-", dir="/tmp"))
    try:
        outside = as_ordinary_user(["head", "-c1", str(secret)], home, group=group)
        assert outside.stdout
    finally:
        home.rmdir()
    line = f"cat {secret}; wc -l </etc/passwd"
    done = served(kind, line, group=group)
    assert int(done.stdout) > 0  # of nothing but passwd
    assert "Permission denied" in done.stderr


def refused() -> dict[str, str]:
    """What a command is told that makes calls which it may not."""
    return dict.fromkeys(refused_calls.CALLS, "EPERM") | {
        "clone3": "ENOSYS",
        "socket AF_VSOCK": "EAFNOSUPPORT",
    }


WRITES = "(echo x > /dev/x || mkdir /dev/pts/x || mkdir /dev/x) || echo none"
TRACE = """
import ctypes
print("traces", ctypes.CDLL(None).ptrace(16, 1, 0, 0))  # PTRACE_ATTACH
try:
    open("/proc/1/mem", "r+b")
except PermissionError:
    print("memory shut")
"""


@on_x86_64
@pytest.mark.parametrize("who", ["us", pytest.param("others", marks=pytest.mark.root)])
def test_no_command_writes_beside_devices_reaches_out_or_traces_the_first_process(
    kind: str, who: str
):
    programs = (TRACE, REFUSED.read_text())
    line = "; ".join([WRITES, *(f"python -c {shlex.quote(text)}" for text in programs)])
    if who == "others":
        said = served(kind, line).stdout
    else:
        said = run(Subject(LocalEngine(kind=kind)), [line]).stdout.decode()
    written, *traced, calls = said.split("\n", 3)
    assert (written, traced) == ("none", ["traces -1", "memory shut"])
    assert dict(line.rsplit(" ", 1) for line in calls.splitlines()) == refused()


def test_processes_that_share_memory_run(subject: Subject):
    pool = "import multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))"
    result = run(subject, [f"python -c '{pool}'"])
    assert result.stdout == b"[1, 2]\n", result.stderr


FILL = "head -c 9000000 /dev/zero >"
MAPPED = """python -c '
import mmap, os, time
file = os.open("f", os.O_RDWR | os.O_CREAT)
os.truncate(file, 9_000_000)
held = mmap.mmap(file, 0)
os.closerange(3, 99)  # the map has one of its own
os.unlink("f")
time.sleep(60)
'"""
OPEN = f"exec 3>/tmp/kept; rm /tmp/kept; {FILL[:-1]} >&3"
SHUT = f"mkdir shut; {FILL} shut/big; chmod 0 shut"
HIDDEN = {
    "bytes": (f"{OPEN}; {SHUT}; {MAPPED}; true", 20_000_000),
    "files": ("mkdir many; cd many; seq 1500 | xargs touch; sleep 60", 5_000_000),
}
"""Commands that take more disk than that, all of which is not seen at first."""


@pytest.mark.lengthy
@pytest.mark.parametrize("how", HIDDEN)
def test_no_command_hides_what_it_writes(
    subject: Subject, how: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("runner.engines.disk.EVERY_S", 0.3)
    line, most = HIDDEN[how]
    result = run(subject, [line], disk_bytes=most, stop_grace_s=0.2, time_s=30)
    assert [f.reason for f in result.finished] == [Reason.DISK_LIMIT]


@pytest.mark.root
@pytest.mark.lengthy
def test_no_command_of_an_ordinary_user_hides_what_it_writes(kind: str):
    done = served(kind, f"{OPEN}; {SHUT}; sleep 60", disk="15000000")
    assert done.stdout == "disk_limit\n", done.stderr


def test_a_python_that_a_link_in_tmp_names_runs_more_than_one_command(tmp_path):
    link = tmp_path / "venv"
    link.symlink_to(sys.prefix)
    spec = "rai: {version: 0.2}\ncommands: {build: [python -V, python -V]}\n"
    (tmp_path / "rai_build.yml").write_text(spec)
    rai = [f"{link}/bin/python", "-c", "from runner.cli.main import main; main()"]
    done = run_program(
        [*rai, "run", str(tmp_path), "--engine", "local"],
        env={**os.environ, "RAI_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Python 3.") == 2
