"""The local engine's network: a world in namespaces is around it, and real servers."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from runner import engines
from runner.core import BuildSpec, Limits, Reason
from runner.core.errors import EngineError
from runner.engines import network
from runner.engines.local import LocalEngine
from tests.kit.needs import ROOT, SANDBOXES
from tests.kit.ordinary import as_ordinary_user
from tests.kit.program import run_program
from tests.kit.waiting import until

PUBLIC = {
    "tcp 198.51.100.1",
    "tcp by interface 198.51.100.1",
    "udp 198.51.100.1",
    "udp by interface 198.51.100.1",
    "name",
}
needs_programs = pytest.mark.skipif(
    os.getuid() != 0 or not all(map(shutil.which, ("pasta", "slirp4netns", "ip"))),
    reason="needs root, pasta, slirp4netns and ip",
)


def in_the_world(*words: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    """Run a program where internet.sh makes a world, with a tunnel device for all."""
    program = [sys.executable, "-m", "tests.kit.one_network_run", *words]
    if user != "root":
        code = "import sys, pathlib; from tests.kit.ordinary import *\n"
        code += "home = pathlib.Path(sys.argv[1])\n"
        code += "done = as_ordinary_user(sys.argv[2:], home)\n"
        code += "print(done.stdout, end=''); sys.exit(done.stderr or done.returncode)"
        program = [sys.executable, "-c", code, user, *program]
    lines = (
        'held=$(mktemp -d); mknod -m 666 "$held/tun" c 10 200',
        'mount --bind "$held/tun" /dev/net/tun',
        shlex.join(["bash", str(ROOT / "tests/kit/internet.sh"), *program]),
        'code=$?; umount /dev/net/tun; rm -rf "$held"; exit $code',
    )
    return run_program(
        ["unshare", "--net", "--mount", "bash", "-c", "\n".join(lines)],
        cwd=ROOT,
        timeout=60,
    )


@needs_programs
@pytest.mark.local
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        pytest.param(*kind.values, way, marks=kind.marks)
        for kind, way in zip(SANDBOXES, ("slirp4netns", "pasta"), strict=True)
    ],
)
def test_a_run_with_a_network_reaches_what_is_public_and_a_name_server_alone(
    kind: str, way: str
) -> None:
    done = in_the_world(kind, way)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == PUBLIC


@needs_programs
@pytest.mark.local
@pytest.mark.parametrize("kind", SANDBOXES)
def test_so_it_is_for_an_ordinary_user(kind: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = in_the_world(kind, "pasta", user=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == PUBLIC


@needs_programs
@pytest.mark.local
@pytest.mark.bubblewrap
def test_a_policy_opens_a_private_network_and_no_other() -> None:
    done = in_the_world("bubblewrap", "slirp4netns", "10.9.0.0/16")
    found = set(done.stdout.splitlines()) - PUBLIC
    assert done.returncode == 0, done.stderr
    assert {line.rpartition(" ")[2] for line in found} == {
        "10.9.9.9",
        "::ffff:10.9.9.9",
    }


@pytest.mark.root
@pytest.mark.local
@pytest.mark.skipif(
    network.TUN.exists() and bool(network.TUN.stat().st_mode & 0o006),
    reason="any user may open /dev/net/tun here",
)
def test_where_no_program_can_connect_it_the_run_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys; from runner import engines; from runner.core import *\n"
        "from runner.core.errors import EngineError\n"
        "wanted = BuildSpec('rai_build.yml', limits=Limits(network=True))\n"
        "try: engines.choose('local', wanted, ci=False)\n"
        "except EngineError as error: print(error); sys.exit(error.reason.exit_code)"
    )
    tmp_path.chmod(0o777)
    done = as_ordinary_user([sys.executable, "-c", code], tmp_path)
    assert done.returncode == Reason.NO_ENGINE.exit_code, done.stderr
    assert "`network: true` needs pasta or slirp4netns here" in done.stdout


@pytest.mark.local
def test_neither_is_it_given_to_the_engine_without_a_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for program in ("bwrap", "unshare", "setpriv", "nsenter", "sh"):
        if found := shutil.which(program):
            (tmp_path / program).symlink_to(found)
    network.missing.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    wanted = BuildSpec("rai_build.yml", limits=Limits(network=True))
    with pytest.raises(EngineError) as refused:
        engines.choose("auto", wanted, ci=False)
    network.missing.cache_clear()
    assert refused.value.reason is Reason.NO_ENGINE
    assert "apt install passt" in str(refused.value)
    assert "bare" not in str(refused.value)


@pytest.mark.local
def test_without_a_network_nothing_has_to_be_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "WAYS", ())
    assert LocalEngine().check(BuildSpec("rai_build.yml")) == []


@needs_programs
@pytest.mark.local
def test_nothing_of_a_network_outlives_a_killed_process() -> None:
    code = (
        "import time; from runner.engines.network import connected\n"
        "with connected() as joined: print(joined.holder, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as rai:
        holder = rai.stdout.readline().strip()
        assert holder
        os.kill(rai.pid, signal.SIGKILL)
    until(lambda: not naming(holder))


def naming(word: str) -> list[bytes]:
    """Return the command lines that have a word, of processes that run."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in words:
            found.append(b" ".join(words))
    return found


def test_the_rules_are_what_a_policy_opens_before_what_is_private() -> None:
    made = network.rules(
        [ip_address("10.0.2.3")],
        [ip_network("10.1.0.0/16")],
        [ip_address(each) for each in ("10.0.0.5", "198.51.100.7", "2001:db8::1")],
    )
    assert made.servers == ("10.0.2.3/32",)
    assert made.open[:2] == ("10.1.0.0/16", "::a01:0/112")
    assert {"10.0.0.0/8", "::1/127", "169.254.0.0/16"}.isdisjoint(made.open)
    assert made.closed[-2:] == ("198.51.100.7/32", "2001:db8::1/128")
    assert "10.0.0.5/32" not in made.closed


def test_name_servers_are_read_from_a_file_that_may_hold_anything() -> None:
    text = "# nameserver 1.1.1.1\nnameserver 10.0.0.1\nnameserver x\nnameserver\n"
    text += "nameserver fe80::1%eth0\nsearch lab\nnameserver 10.0.0.1\n"
    assert network.name_servers(text) == (ip_address("10.0.0.1"), ip_address("fe80::1"))


def test_the_addresses_of_this_machine_are_read_from_the_kernels_lists() -> None:
    trie = (
        "           |-- 127.0.0.1\n              /32 host LOCAL\n"
        "        |-- 198.51.100.0\n           /24 link UNICAST\n"
        "           |-- 198.51.100.2\n              /32 host LOCAL\n"
    )
    six = "20010db8000000000000000000000002 02 40 00 80     eth0\n"
    wanted = ("127.0.0.1", "198.51.100.2", "2001:db8::2")
    assert network.parsed(trie, six) == tuple(map(ip_address, wanted))
