"""The command lines of sandboxes, without a sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.core import Invocation, Limits, Profile
from runner.engines.folders import Folders
from runner.engines.local import sandbox
from runner.engines.local.layout import Gpus, Host, Layout, lay_out
from runner.engines.local.seccomp import redirected

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


def laid_out(gpus: Gpus) -> Layout:
    run = Folders(Path("/t/run"))
    given = {"limits": Limits(), "data": (), "gpus": gpus, "owner": (7, 8)}
    return lay_out(run, HOST, profile=Profile.STRICT, **given)


def follows(words: list[str], *wanted: str) -> bool:
    size = len(wanted)
    return any(tuple(words[n : n + size]) == wanted for n in range(len(words)))


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


def test_whom_root_becomes_is_in_the_groups_that_may_open_the_gpus_files_and_no_other():
    closed = laid_out(Gpus(("/dev/nvidia0",), (), (44, 45)))
    become = ("setpriv", "--reuid=7", "--regid=8")
    assert follows(sandbox.bwrap_argv(closed, (0, 0), ["x"]), *become, "--groups=44,45")
    told = json.loads(sandbox.unshare_argv(closed, (0, 0), HOST.python, ["x"])[-2])
    assert told["groups"] == [44, 45]
    open_ = laid_out(Gpus(("/dev/nvidia0",)))
    assert follows(sandbox.bwrap_argv(open_, (0, 0), ["x"]), *become, "--clear-groups")
