"""A server and its workers as users of their own, who meet at a socket of systemd."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.core.request import FOR_SERVER
from runner.core.wire import QueueState
from runner.store import claim
from runner.store.paths import RunPaths
from tests.kit import direct
from tests.kit.ordinary import as_user
from tests.kit.site import RAI, Site
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.local,
    pytest.mark.programs,
    pytest.mark.skipif(
        not shutil.which("systemd-socket-activate"), reason="no systemd"
    ),
]

ROOT = Path(__file__).resolve().parents[2]
DOCKER = Path("/var/run/docker.sock")
SLOW = "[\"sh -c 'echo begun > kept; until [ -e go ]; do sleep 0.1; done'\"]"


class TwoUsers(Site):
    """A server whose workers another user is, as the units of systemd have it."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, listen="")
        self.server, self.worker = f"{name}s", f"{name}w"
        self.home = folder / "runs-home"
        workers = self._short / "worker.sock"
        self.options = ("--workers", str(workers), "--home", str(self.home))
        own = f"--regid={self.server}", f"--groups={self.server},{name}"
        self.program = [*_as(self.server, *own), *RAI]
        self.environ = {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder)}
        for path, user, group, mode in (
            (folder, self.server, self.server, 0o755),
            (self._short, self.server, self.server, 0o755),
            (self.home, self.worker, name, 0o2770),
            (self.home / "runs", self.worker, name, 0o2770),
        ):
            path.mkdir(exist_ok=True)
            shutil.chown(path, user, group)
            path.chmod(mode)
        docker = grp.getgrgid(DOCKER.stat().st_gid).gr_name if DOCKER.exists() else name
        self.groups = f"--regid={name}", f"--groups={name},{docker}"
        given = {"RAI_HOME": self.home, "PYTHONPATH": ROOT, "RAI_ENGINE": "local"}
        log = folder / "workers.log"
        script = 'exec "$@" > /dev/null 2>> "$0"'
        self.sockets = subprocess.Popen(
            [
                *("sh", "-c", script, log),
                *_as(self.worker, *self.groups),
                *("systemd-socket-activate", "--accept", "--inetd"),
                *(f"--setenv={key}={value}" for key, value in given.items()),
                *(f"--listen={self.home}/worker.sock", sys.executable),
                *("-m", "runner.execution.worker", FOR_SERVER),
            ],
        )
        until((self.home / "worker.sock").is_socket)
        # As SocketUser=, SocketGroup= and SocketMode= of the socket's unit.
        (self.home / "worker.sock").rename(workers)
        shutil.chown(workers, 0, self.server)
        workers.chmod(0o660)

    @property
    def runs(self) -> Path:
        """The folders of the server's runs."""
        return self.home / "runs"

    def close(self) -> None:
        super().close()
        self.sockets.kill()
        self.sockets.wait()


def _as(user: str, *groups: str) -> list[str]:
    return as_user([f"--reuid={user}", *groups], [])


def may(user: str, groups: tuple[str, ...], code: str) -> bool:
    """Whether a user may do something."""
    done = subprocess.run(
        [*_as(user, *groups), sys.executable, "-c", code], capture_output=True
    )
    assert done.returncode == 0 or b"PermissionError" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.fixture(scope="module")
def site() -> Iterator[TwoUsers]:
    name = f"rai{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix="rai-users-"))
    made = None
    subprocess.run(["groupadd", "--system", name], check=True)
    try:
        for user in (f"{name}s", f"{name}w"):
            subprocess.run(
                ["useradd", "--system", "--user-group", "--no-create-home", user],
                check=True,
            )
        made = TwoUsers(folder, name)
        made.start()
        yield made
    finally:
        if made:
            made.close()
        for user in (f"{name}s", f"{name}w"):
            subprocess.run(["userdel", user], check=False)
        subprocess.run(["groupdel", name], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_server_runs_things_as_another_user_and_neither_has_what_is_the_others(
    site, tmp_path
):
    ada = site.person("red", "ada")
    worker = pwd.getpwnam(site.worker).pw_uid
    server = pwd.getpwnam(site.server).pw_uid
    with ada.client(60.0) as client:
        first = direct.queue(client, direct.seal(tmp_path / "p", '["echo hi > kept"]'))
        assert direct.ended(client, first).reason == "done"
        slow = direct.queue(client, direct.seal(tmp_path / "q", SLOW))
        until(lambda: client.run(slow).state is QueueState.RUNNING, "it does not run")
        paths = RunPaths(site.runs / slow)
        held = until(lambda: claim.holder(paths))
        assert Path(f"/proc/{held.process.pid}").stat().st_uid == worker

        # Another server finds the run, and learns of its end.
        site.kill()
        site.start()
        assert client.run(slow).state is QueueState.RUNNING
        client.cancel(slow)
        assert direct.ended(client, slow).reason == "cancelled"

        follower = direct.follow(ada, first)
        copy = RunPaths(ada.runs / first)
        until(lambda: copy.record.exists() or follower.error, "it has no end")
        follower.check()
        assert copy.build.exists()
    for folder in site.runs.iterdir():
        mode = folder.stat().st_mode
        assert mode & stat.S_ISGID and not stat.S_IMODE(mode) & 0o007
    kept = {path.name: path.stat().st_uid for path in (site.runs / first).iterdir()}
    assert kept["source.tar.zst"] == server and kept["events.jsonl"] == worker
    assert "order.json" not in kept

    own = f"--regid={site.server}", f"--groups={site.server},{site.worker[:-1]}"
    for path in (site.state, site.state / "store.sqlite", site.state / "uploads"):
        code = f"import os; os.stat({str(path)!r}); os.listdir({str(site.state)!r})"
        assert may(site.server, own, code)
        assert not may(site.worker, site.groups, code)
    call = "import socket as s; s.socket(s.AF_UNIX).connect"
    assert not may(site.worker, site.groups, f"{call}({site.options[1]!r})")
    assert may(site.server, own, f"{call}({site.options[1]!r})")
    if DOCKER.exists():
        assert may(site.worker, site.groups, f"{call}({str(DOCKER)!r})")
        assert not may(site.server, own, f"{call}({str(DOCKER)!r})")

    found = site.rai("doctor", "--json").stdout
    assert "workers have a user of their own" in found


def test_what_the_server_removes_goes_whoever_made_it(site, tmp_path):
    ada = site.person("red", "ada")
    (site.state / "server.yml").write_text("roles: {student: {keep: 1s}}\n")
    with ada.client(60.0) as client:
        run = direct.queue(client, direct.seal(tmp_path / "p", '["true"]'))
        assert direct.ended(client, run).reason == "done"
    left = site.runs / run / "project" / "closed"
    subprocess.run(
        [*_as(site.worker, *site.groups), "mkdir", "-m", "700", "-p", left], check=True
    )
    site.stop()
    site.start()  # it reads server.yml, and tidies up at once
    until(lambda: not (site.runs / run).exists(), "the run stays")
    site.stop()
    site.start()  # a worker looks at the machine, and removes what is its user's
    until(lambda: not any((site.runs / ".trash").iterdir()), "its files stay")
