"""A server for tests: real processes, people who are logged in, and a clean end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from runner.client.api import Patience, ServerClient
from runner.client.profile import ProfileEntry
from runner.core.quantities import DAY_S
from runner.server.database import open_store
from runner.server.database.accounts import Invitation
from runner.store import claim
from runner.store.paths import RunPaths
from runner.system import machine
from tests.kit.program import ROOT, Forked, forked

RAI = [sys.executable, "-m", "runner.cli.main"]
STARTS_S = 60.0
ENDS_S = 30.0
LOOPBACK = "127.0.0.1:0"


class Person:
    """Somebody with a home of their own, who is logged in at the server."""

    def __init__(self, site: Site, team: str, name: str, home: Path) -> None:
        self.site, self.team, self.name, self.home = site, team, name, home
        self.token = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment of this person's programs."""
        folders = {
            "HOME": str(self.home),
            "RAI_HOME": str(self.home / "rai"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "share"),
        }
        mine = {k: v for k, v in os.environ.items() if not k.startswith("RAI_")}
        return {**mine, **folders, "NO_COLOR": "1"}

    def rai(
        self,
        *words: str | Path,
        input: str = "",
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run rai to its end as this person."""
        outside = cwd or tempfile.gettempdir()  # of projects
        return forked(*words, env=self.env, cwd=outside, input=input)

    def started(self, *words: str | Path) -> Forked:
        """Start rai as this person; its stdout and stderr are pipes."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return Forked(*words, env=self.env, cwd=tempfile.gettempdir(), **pipes)

    def client(self, patience_s: float = 0.0, url: str = "") -> ServerClient:
        """Ask the server as this person, without a program."""
        entry = ProfileEntry(
            url or f"unix://{self.site.socket}",
            self.token,
            self.site.fingerprint if url.startswith("https") else "",
        )
        return ServerClient(entry, Patience(patience_s))

    @property
    def runs(self) -> Path:
        """The folders of this person's copies of runs."""
        return self.home / "rai" / "runs"


class Site:
    """`rai server serve` in a folder, with all that it starts.

    Sockets have short names, which lie outside the test's folder.
    """

    def __init__(self, folder: Path, *options: str, listen: str = LOOPBACK) -> None:
        self.folder, self.state = folder, folder / "state"
        self._short = Path(tempfile.mkdtemp(prefix="rai-site-"))
        self.socket = self._short / "server.sock"
        self.options = (*options, *(("--listen", listen) if listen else ()))
        if listen:
            self.options += ("--tls", "self")
        self.environ: dict[str, str] = {"RAI_ENGINE": "local"}
        self.program: list[str] = []  # that is not rai, or has words before it
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._people = 0
        self.url = self.fingerprint = ""
        self.log = folder / "server.log"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the server's programs."""
        mine = {k: v for k, v in os.environ.items() if not k.startswith("RAI_")}
        return {**mine, "HOME": str(self.folder), **self.environ}

    @property
    def runs(self) -> Path:
        """The folders of the server's runs."""
        return self.state / "home" / "runs"

    def start(self) -> None:
        """Start the server and wait until it serves."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = self._serving_lines()
        at = ("--state", str(self.state), "--socket", str(self.socket))
        words = ("server", "serve", *at, *self.options)
        with self.log.open("ab") as log:
            streams = {"env": self.env, "stdout": log, "stderr": log}
            if self.program:
                argv, null = [*self.program, *words], subprocess.DEVNULL
                self.process = subprocess.Popen(argv, stdin=null, **streams)
            else:
                self.process = Forked(*words, **streams)
        until = time.monotonic() + STARTS_S
        while self._serving_lines() == before:
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"it does not serve: {self.log.read_text()}")
            time.sleep(0.02)
        found = json.loads((self.state / "reached.json").read_text())
        self.url, self.fingerprint = found["url"], found["fingerprint"]

    def kill(self) -> None:
        """Kill the server; the runs go on."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End the server as systemd does; return its exit status."""
        return self._end(signal.SIGTERM)

    def rai(
        self, *words: str | Path, input: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `rai server WORDS --state ...` to its end, as staff."""
        given = {"env": self.env, "input": input}
        return forked("server", *words, "--state", self.state, **given)

    def codes(self, team: str, *people: str, role: str = "") -> list[str]:
        """Invite people without a program; return their codes."""
        file = f"sqlite:///{self.state}/store.sqlite"
        invited = [Invitation(team, name, role) for name in people]
        with closing(open_store(self.environ.get("RAI_DATABASE_URL", file))) as store:
            return [one.code for one in store.invite(invited, time.time(), DAY_S)]

    def person(self, team: str, name: str, role: str = "") -> Person:
        """Invite somebody, who logs in without a program."""
        (code,) = self.codes(team, name, role=role)
        return self.joined(team, name, code)

    def joined(self, team: str, name: str, code: str) -> Person:
        """Return a person who has redeemed a code, with an own home."""
        found = self.stranger(team, name)
        with found.client() as asked:
            found.token = asked.login(code, "test").token
        return found

    def stranger(self, team: str, name: str) -> Person:
        """Return somebody with an own home who has not logged in."""
        self._people += 1
        home = self.folder / "people" / f"{self._people}-{name}"
        home.mkdir(parents=True)
        return Person(self, team, name, home)

    def close(self) -> None:
        """End the server and every run; remove the sockets."""
        if self.process and self.process.poll() is None:
            self._end(signal.SIGKILL)
        for folder in self.runs.glob("*"):
            held = claim.holder(RunPaths(folder))
            if held and machine.is_alive(held.process):
                below = machine.descendants(held.process.pid)
                for pid in (held.process.pid, *below):
                    _kill(pid)
        shutil.rmtree(self._short, ignore_errors=True)

    def _end(self, number: int) -> int:
        assert self.process
        self.process.send_signal(number)
        return self.process.wait(ENDS_S)

    def _serving_lines(self) -> int:
        with suppress(FileNotFoundError):
            return len(re.findall(r"^Serving at ", self.log.read_text(), re.M))
        return 0


@contextmanager
def serving(
    folder: Path,
    *options: str,
    listen: str = LOOPBACK,
    module: str = "",
    **environ: str,
) -> Iterator[Site]:
    """Serve in a folder, with these variables, for as long as the context lasts.

    ``module`` is one of the tests that serves in the place of rai.
    """
    site = Site(folder, *options, listen=listen)
    if module:
        site.program = [sys.executable, "-m", module]
        site.environ["PYTHONPATH"] = str(ROOT)
    site.environ |= environ
    try:
        site.start()
        yield site
    finally:
        site.close()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
