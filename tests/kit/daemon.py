"""A Docker daemon of a test's own, which it may kill, stop and start again.

It has namespaces of its own for mounts, network and processes, so that everything in
them ends with it, and its own folder and control group. It has no bridge: containers
with a network cannot run.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import docker

from runner.system import machine
from tests.kit.waiting import until

START_S = 60.0
NAMESPACES = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
GROUPS = Path("/sys/fs/cgroup")
FIRST = """\
exec 3<&0; trap exit TERM
mount -t proc proc /proc
(read -r _ <&3; kill -TERM 1) &
wait
"""
"""The first process of the namespaces: reap orphans, and end with stdin."""


@cache
def problem() -> str:
    """Return why no daemon can be started here; empty if one can."""
    if shutil.which("dockerd") is None:
        return "no dockerd"
    if os.getuid() != 0:
        return "needs root"
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False)
    return done.stderr.decode().strip() if done.returncode else ""


class Daemon:
    """A daemon in ``folder``; ``url`` is its address, ``pid`` the program's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/sock"
        self.pid = 0
        self._group = f"test-{folder.name}"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._inside = subprocess.Popen(
            [*NAMESPACES, "sh", "-c", FIRST],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def start(self) -> None:
        """Start the program, and wait until it answers."""
        (first,) = until(lambda: machine.descendants(self._inside.pid)[:1])
        enter = ["nsenter", f"--target={first}", "--mount", "--net", "--pid"]
        with (self.folder / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [*enter, "--", "dockerd", *self._options()], stdout=log, stderr=log
            )
        (self.pid,) = until(lambda: machine.descendants(self._daemon.pid)[:1])
        until(self._answers)

    def signal(self, number: int) -> None:
        """Send a signal to the program; wait for its end after SIGKILL."""
        os.kill(self.pid, number)
        if number == signal.SIGCONT and self._daemon is not None:
            # nsenter stops with its program, and then reaps nothing.
            self._daemon.send_signal(signal.SIGCONT)
        if number == signal.SIGKILL and self._daemon is not None:
            self._daemon.wait()

    def load(self, image: str) -> None:
        """Copy an image from the usual engine."""
        save = subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE)
        with save:
            command = ["docker", "--host", self.url, "load", "--quiet"]
            subprocess.run(command, stdin=save.stdout, check=True, capture_output=True)

    def client(self) -> docker.APIClient:
        """Return a client of it."""
        return docker.APIClient(base_url=self.url, timeout=START_S)

    def close(self) -> None:
        """End it with all its containers, and remove its folder."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGCONT)
        for pid in machine.descendants(self._inside.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
        self._inside.communicate()
        if self._daemon is not None:
            self._daemon.wait()
        for group in (*GROUPS.glob(self._group), *GROUPS.glob(f"*/{self._group}")):
            for folder, _, _ in os.walk(group, topdown=False):
                Path(folder).rmdir()
        shutil.rmtree(self.folder)

    def _options(self) -> list[str]:
        folder = self.folder
        return [
            f"--data-root={folder}/data",
            f"--exec-root={folder}/exec",
            f"--pidfile={folder}/pid",
            f"--host={self.url}",
            f"--cgroup-parent=/{self._group}",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
        ]

    def _answers(self) -> bool:
        assert self._daemon.poll() is None, (self.folder / "log").read_text()[-500:]
        asked = ["docker", "--host", self.url, "version"]
        done = subprocess.run(asked, capture_output=True, check=False)
        return done.returncode == 0


@contextmanager
def daemon(image: str) -> Iterator[Daemon]:
    """Start a daemon that has an image; end it and remove everything of it."""
    # In /tmp itself, as the path of a socket may have 107 characters only.
    made = Daemon(Path(tempfile.mkdtemp(prefix="raid-", dir="/tmp")))
    try:
        made.start()
        made.load(image)
        yield made
    finally:
        made.close()
