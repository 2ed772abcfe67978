"""The command lines of sandboxes, without a sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.core import DataFile, DataMount, Invocation, Limits, Profile
from runner.engines.folders import Folders
from runner.engines.launch import in_groups, with_environment, with_limits
from runner.engines.local import sandbox
from runner.engines.local.host import Host
from runner.engines.local.layout import Gpus, Layout, layout
from runner.engines.local.tools import redirected

HOST = Host(
    folders=(Path("/usr"), Path("/root/py")),
    links=((Path("/bin"), "usr/bin"),),
    aliases=((Path("/tmp/venv"), Path("/root/py")),),
    python=Path("/root/py/bin/python"),
    bin=Path("/root/py/bin"),
    wrap=False,
    user_base=None,
    resolver=Path("/run/resolved/resolv.conf"),
)
DATA = DataMount("/data/x", (DataFile("a.gz", Path("/cache/a.gz"), "", 1),))
ME = (1000, 1000)


def laid_out(profile: Profile = Profile.STRICT, **options) -> Layout:
    options = {"limits": Limits(shm_bytes=5), "data": [DATA]} | options
    return layout(Folders(Path("/t/run")), HOST, profile=profile, **options)


def follows(words: list[str], *wanted: str) -> bool:
    size = len(wanted)
    return any(tuple(words[n : n + size]) == wanted for n in range(len(words)))


def test_bubblewrap_shows_the_run_its_folders_and_the_host_read_only():
    words = sandbox.bwrap_argv(laid_out(), ME, ["true"])
    assert follows(words, "--ro-bind", "/t/run/src", "/src")
    assert follows(words, "--bind", "/t/run/build", "/build")
    assert follows(words, "--bind", "/t/run/tmp", "/tmp")
    assert follows(words, "--ro-bind", "/usr", "/usr")
    assert follows(words, "--dir", "/root", "--ro-bind", "/root/py", "/root/py")
    assert follows(words, "--ro-bind", "/cache/a.gz", "/data/x/a.gz")
    assert follows(words, "--symlink", "usr/bin", "/bin")
    assert follows(words, "--ro-bind", "/root/py", "/tmp/venv")
    assert follows(words, "--size", "5", "--tmpfs", "/dev/shm")
    assert follows(words, "--remount-ro", "/dev", "--remount-ro", "/")


def test_the_source_is_writable_in_the_compatible_profile():
    words = sandbox.bwrap_argv(laid_out(Profile.COMPATIBLE), ME, ["true"])
    assert follows(words, "--bind", "/t/run/src", "/src")


def test_a_user_stays_who_they_are_and_root_becomes_another():
    user, root = laid_out(), laid_out(owner=(7, 8))
    assert follows(
        sandbox.bwrap_argv(user, ME, ["x"]), "--unshare-user", "--uid", "1000"
    )
    words = sandbox.bwrap_argv(root, (0, 0), ["x"])
    assert "--unshare-user" not in words
    assert follows(words, "setpriv", "--reuid=7", "--regid=8", "--clear-groups")


@pytest.mark.parametrize("owner", [None, (7, 8)])
def test_unshare_tells_its_first_process_the_same(owner):
    words = sandbox.unshare_argv(laid_out(owner=owner), ME, HOST.python, ["true", "x"])
    assert words[-2:] == ["true", "x"]
    assert ("--map-root-user" in words) is (owner is None)
    told = json.loads(words[-3])
    assert ["/t/run/src", "/src", False] in told["binds"]
    assert ["/t/run/build", "/build", True] in told["binds"]
    assert told["owner"] == (None if owner is None else list(owner))
    assert told["me"] == [1000, 1000]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/usr/bin/time -p x", "/run/rai/bin/time -p x"),
        ("a;(/usr/bin/time x)", "a;(/run/rai/bin/time x)"),
        ("/usr/bin/timeout x", "/usr/bin/timeout x"),
        ("/my/usr/bin/time x", "/my/usr/bin/time x"),
    ],
)
def test_gnu_time_is_named_anew_in_a_line_and_in_words(line: str, said: str):
    assert redirected(Invocation((), "", line)).script == said
    assert redirected(Invocation(("bash", "-c", line), "")).argv[2] == said


def test_a_command_is_the_last_of_all_words():
    command = ["prog", "a b"]
    limits = with_limits(command, Limits(open_files=9, file_bytes=1024), "word")
    assert limits[-2:] == command
    assert "ulimit -n 9 " in limits[2]
    assert "ulimit -f 2 " in limits[2]
    assert with_environment({"A": "b c"}, command) == [
        "/usr/bin/env",
        "-i",
        "A=b c",
        *command,
    ]
    assert in_groups([], command) == command
    assert in_groups(["/g/cgroup.procs"], command)[-3:] == ["/g/cgroup.procs", *command]


def test_device_files_of_gpus_are_seen_in_the_sandboxs_own_dev_and_no_others_are():
    cap = "/dev/nvidia-caps/nvidia-cap1"
    library = ("/usr/lib64/libcuda.so.580", "/run/nvidia/lib64/libcuda.so.1")
    gpus = Gpus(("/dev/nvidiactl", "/dev/nvidia1", cap), (library,))
    words = sandbox.bwrap_argv(laid_out(gpus=gpus), ME, ["true"])
    dev = words.index("/dev")
    assert words.index("/dev/nvidiactl") > dev
    assert follows(words, "--dev-bind", "/dev/nvidia1", "/dev/nvidia1")
    assert follows(words, "--dir", "/dev/nvidia-caps", "--dev-bind", cap, cap)
    assert follows(words, "--ro-bind", *library)
    assert words.count("--dev-bind") == 3
    told = json.loads(
        sandbox.unshare_argv(laid_out(gpus=gpus), ME, HOST.python, [])[-1]
    )
    assert told["devices"] == list(gpus.nodes)
    assert [*library, False] in told["binds"]
    assert "--dev-bind" not in sandbox.bwrap_argv(laid_out(), ME, ["true"])


def test_whom_root_becomes_is_in_the_groups_that_may_open_the_gpus_files_and_no_other():
    closed = laid_out(gpus=Gpus(("/dev/nvidia0",), (), (44, 45)), owner=(7, 8))
    become = ("setpriv", "--reuid=7", "--regid=8")
    assert follows(sandbox.bwrap_argv(closed, (0, 0), ["x"]), *become, "--groups=44,45")
    told = json.loads(sandbox.unshare_argv(closed, (0, 0), HOST.python, ["x"])[-2])
    assert told["groups"] == [44, 45]
    open_ = laid_out(gpus=Gpus(("/dev/nvidia0",)), owner=(7, 8))
    assert follows(sandbox.bwrap_argv(open_, (0, 0), ["x"]), *become, "--clear-groups")
