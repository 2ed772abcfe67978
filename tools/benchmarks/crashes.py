"""Kill all that a server's runs need: each run ends once, with no wrong byte.

People run projects, some on Docker, the others on the local engine, while the server,
workers, clients and what they stand on are killed in turn.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import cycle
from pathlib import Path

from msgspec import Struct

from runner.client.problems import RefusedError
from runner.core import Reason, RunRecord, record
from runner.core.wire import FILES, QueueState, RemoteRun
from runner.store import claim
from runner.store.paths import RunPaths
from runner.system import machine
from tests.kit import cluster, daemon, postgres
from tests.kit.site import Person, Site
from tests.kit.waiting import until
from tools.benchmarks import projects, rows

STORES = os.environ.get("RAI_BENCH_STORES", "SQLite PostgreSQL Slurm").split()
RUNS = int(os.environ.get("RAI_BENCH_RUNS", "210"))
KILLS = int(os.environ.get("RAI_BENCH_KILLS", "72"))
PEOPLE = 6
SLOTS = 4
ON_DOCKER = 3
"""Where there is Docker each third run is on it."""

LINES = 40
OUTPUT = "".join(f"line {n}\n" for n in range(1, LINES + 1)).encode()
PRINTS = f"n=0; while [ $n -lt {LINES} ]; do n=$((n+1)); echo line $n; sleep 0.05; done"
SPEC = f"""\
rai: {{version: 0.2, image: "debian:bookworm-slim"}}
commands: {{build: ["sh -c '{PRINTS}'"]}}
resources: {{limits: {{memory: 256MiB, time: 5m}}}}
"""
RULES = "roles: {student: {at_once: none, a_day: none}}\n"

BETWEEN_S = (0.2, 2.0)
AWAY_S = (0.0, 1.5)
MOST_WAIT_S = 240.0
MOST_TRIES = 5
LEFT_BEHIND_S = 30.0


class Client(Struct):
    """A client's program: its project's number, its run, and how it ended.

    ``run`` is "" where none reached the server.
    """

    person: Person
    number: int
    program: subprocess.Popen[bytes]
    run: str = ""
    killed: bool = False
    exit_code: int | None = None
    printed: bytes = b""


class Wrong(Struct, frozen=True):
    """What is wrong with a run, in words."""

    run: str
    what: str


def measure() -> Iterator[dict[str, object]]:
    """Run a series each on SQLite, on PostgreSQL and on Slurm."""
    for store in STORES:
        with ExitStack() as stack:
            yield _series(store, stack)


def _series(store: str, stack: ExitStack) -> dict[str, object]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rai-b-")))
    site, others = _site(store, folder / "site", stack)
    series = Series(site, others, on_docker="dockerd" in others)
    began = time.monotonic()
    series.carry_out()
    took_s = time.monotonic() - began
    found = {run: series.remote(run) for run in series.runs()}
    wrong = [one for run in found for one in _wrong_with(site, run, found[run])]
    wrong += [one for client in series.clients for one in _wrong_at(client, found)]
    left = _left_behind(site)
    reasons = Counter(str(one.reason or "none") for one in found.values())
    return rows.row(
        f"{len(found)} runs under {sum(series.kills.values())} kills, {store}",
        "each ends once, no wrong byte at the server or in a copy, nothing left",
        len(found) >= RUNS and not wrong and not left,
        kills=dict(series.kills),
        ends=dict(reasons),
        clients=len(series.clients),
        clients_killed=sum(one.killed for one in series.clients),
        without_a_run=sum(not one.run for one in series.clients),
        wrong=[f"{one.run}: {one.what}" for one in wrong],
        left=left,
        server_away_s=round(statistics.median(series.away_s), 2),
        took_s=round(took_s, 1),
    )


Kill = Callable[[], bool]
"""Kills and starts again; False if this is no time to."""


def _site(
    store: str, folder: Path, stack: ExitStack
) -> tuple[Site, Mapping[str, Kill]]:
    """Start a server; return it, and what it stands on: how that is killed, by name."""
    options, environ = ["--slots", str(SLOTS)], {}
    others: dict[str, Kill] = {}
    if store == "Slurm":
        slurm = stack.enter_context(cluster.cluster(settings={}))
        options = ["--place", "slurm"]
        environ["SLURM_CONF"] = str(slurm.conf)

        tended = _Tended(slurm)
        stack.callback(tended.stop)
        others["slurmctld"] = tended.kill
    else:
        docker = stack.enter_context(daemon.daemon("debian:bookworm-slim"))
        environ["DOCKER_HOST"] = docker.url

        def dockerd() -> bool:
            docker.signal(signal.SIGKILL)
            time.sleep(random.uniform(*AWAY_S))
            docker.start()
            return True

        others["dockerd"] = dockerd
    if store == "PostgreSQL":
        base = stack.enter_context(postgres.server())
        environ["RAI_DATABASE_URL"] = base.url

        def postmaster() -> bool:
            base.kill()
            time.sleep(random.uniform(*AWAY_S))
            base.start()
            return True

        others["PostgreSQL"] = postmaster
    (folder / "state").mkdir(parents=True, mode=0o700)
    (folder / "state" / "server.yml").write_text(RULES)
    site = stack.enter_context(closing(Site(folder, *options)))
    site.environ |= environ
    site.start()
    return site, others


class _Tended:
    """A cluster whose controller is killed, and mended as who runs one does.

    A controller that is killed forgets what was newest. It gives the numbers of jobs
    to others, and drains the node that has such a job still: that is resumed. It takes
    jobs that ended meanwhile to be running, until their nodes register once more, not
    before ``BatchStartTimeout`` and ``MessageTimeout``, 20 s in all.
    """

    HEALS_S = 25.0

    def __init__(self, slurm: cluster.Cluster) -> None:
        self._slurm, self._over = slurm, threading.Event()
        self._started = self._registered = time.monotonic()
        self._thread = threading.Thread(target=self._tend)
        self._thread.start()

    def kill(self) -> bool:
        """Kill the controller, unless it did not recover from the last time."""
        if self._registered < self._started + self.HEALS_S:
            return False
        self._slurm.kill("slurmctld")
        time.sleep(random.uniform(*AWAY_S))
        self._slurm.start("slurmctld")
        self._started = time.monotonic()
        return True

    def stop(self) -> None:
        """Tend it no longer."""
        self._over.set()
        self._thread.join()

    def _tend(self) -> None:
        while not self._over.wait(1):
            with suppress(AssertionError):  # while the controller is away
                for node, state in self._slurm.node_states().items():
                    if state.startswith("dra"):
                        self._slurm.resume(node)
                now = time.monotonic()
                if self._registered < self._started + self.HEALS_S < now:
                    self._slurm.ask("scontrol", "reconfigure")
                    self._registered = now


class Series:
    """People who run projects at a site, and who kills meanwhile."""

    def __init__(self, site: Site, others: Mapping[str, Kill], on_docker: bool) -> None:
        self.site, self._others, self._on_docker = site, others, on_docker
        self.clients: list[Client] = []
        self.kills: Counter[str] = Counter()
        self.unsent: set[str] = set()
        self._staff = site.person("staff", "sue", role="staff")
        self.away_s: list[float] = []
        self._victims = cycle(("server", "worker", "client", *others))
        self._chance = random.Random(1)
        self._lock = threading.Lock()
        self._people = [_logged_in(site, f"team{n}", "ann") for n in range(PEOPLE)]

    def carry_out(self) -> None:
        """Run until there were enough runs and enough kills."""
        with ThreadPoolExecutor(PEOPLE) as pool:
            all_runs = [pool.submit(self._work, person) for person in self._people]
            while not self._enough() and not any(one.done() for one in all_runs):
                time.sleep(self._chance.uniform(*BETWEEN_S))
                self._kill_one()
            for one in all_runs:
                one.result()

    def runs(self) -> list[str]:
        """Return the server's runs: of one that never began there is no folder."""
        queued = {one.run for one in self.clients if one.run}
        return sorted(queued | {path.name for path in self.site.runs.glob("[0-9a-f]*")})

    def remote(self, run: str) -> RemoteRun:
        """Return what the server says of a run, once it has ended."""
        with self._staff.client(MOST_WAIT_S) as client:
            until(
                lambda: client.run(run).state is QueueState.ENDED,
                f"{run} has no end",
                MOST_WAIT_S,
            )
            return client.run(run)

    def _enough(self) -> bool:
        return len(self.clients) >= RUNS * 1.1 and self.kills.total() >= KILLS

    def _work(self, person: Person) -> None:
        """Run one project after the other."""
        while not self._enough():
            client = self._started(person)
            client.printed = client.program.communicate()[0]
            client.exit_code = client.program.returncode
            client.run = _new_run(self, client)
            if client.run and (client.killed or not _copied(client)):
                self._copy_anew(client)

    def _started(self, person: Person) -> Client:
        with self._lock:
            number = len(self.clients)
            folder = projects.write(person.home / "projects" / f"{number}", SPEC)
            on_docker = self._on_docker and number % ON_DOCKER == 0
            words = ("--engine", "docker" if on_docker else "local")
            if self.site.options[:2] == ("--place", "slurm"):
                words = ()
            program = person.started("run", "-p", folder, "-q", *words)
            self.clients.append(Client(person, number, program))
            return self.clients[-1]

    def _copy_anew(self, client: Client) -> None:
        """Have the copy of a run completed, as its owner would."""
        for _ in range(MOST_TRIES):
            done = client.person.rai("attach", "-q", client.run)
            client.printed, client.exit_code = done.stdout.encode(), done.returncode
            if _copied(client):
                return

    def _kill_one(self) -> None:
        victim = next(self._victims)
        if victim == "server":
            self.site.kill()
            began = time.monotonic()
            time.sleep(self._chance.uniform(*AWAY_S))
            self.site.start()
            self.away_s.append(time.monotonic() - began)
        elif victim == "worker":
            alive = [
                one for one in map(RunPaths, self.site.runs.iterdir()) if _pid(one)
            ]
            if not alive:
                return
            if pid := _pid(self._chance.choice(alive)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif victim == "client":
            going = [one for one in self.clients if one.program.poll() is None]
            if not going:
                return
            one = self._chance.choice(going)
            one.killed = True
            one.program.kill()
        else:
            if not self._others[victim]():
                return
        self.kills[victim] += 1


def _logged_in(site: Site, team: str, name: str) -> Person:
    (code,) = site.codes(team, name)
    person = site.stranger(team, name)
    done = person.rai("login", f"unix://{site.socket}", input=code)
    assert done.returncode == 0, done.stderr
    with person.client() as client:
        person.token = client.login(site.codes(team, name)[0], "kills").token
    return person


def _new_run(series: Series, client: Client) -> str:
    """Return the run that a client began, "" where the server has none of it."""
    known = {one.run for one in series.clients} | series.unsent
    mine = [path.name for path in client.person.runs.glob("[0-9a-f]*")]
    new = [run for run in mine if run not in known]
    assert len(new) <= 1, f"a client began {new}"
    if not new:
        return ""
    with client.person.client(MOST_WAIT_S) as asked:
        try:
            return asked.run(new[0]).id
        except RefusedError:  # killed before it had asked for the run
            series.unsent.add(new[0])
            return ""


def _copied(client: Client) -> bool:
    return RunPaths(client.person.runs / client.run).record.exists()


def _pid(paths: RunPaths) -> int:
    """Return the process that carries a run out, 0 if none does."""
    if paths.record.exists():
        return 0
    held = claim.holder(paths)
    return held.process.pid if held and machine.is_alive(held.process) else 0


def _wrong_with(site: Site, run: str, remote: RemoteRun) -> Iterator[Wrong]:
    """Compare a run's folder at the server with what it may be."""
    paths = RunPaths(site.runs / run)
    events, said = _bytes(paths.events), _bytes(paths.stdout)
    for kind in ("Created", "CommandStarted", "Finished"):
        if (count := events.count(b'"event":"%s"' % kind.encode())) > 1:
            yield Wrong(run, f"{count} events {kind}")
    if not OUTPUT.startswith(said):
        yield Wrong(run, f"its output is not the program's: {said[-40:]!r}")
    if remote.reason is None:
        yield Wrong(run, "it ended without a reason")
    if remote.reason is Reason.DONE and said != OUTPUT:
        yield Wrong(run, f"done, with {len(said)} of {len(OUTPUT)} bytes")
    if (kept := _record(paths)) is None:
        if not remote.why:
            yield Wrong(run, "no record, and no word of why")
    elif kept.verdict is None or kept.verdict.reason is not remote.reason:
        yield Wrong(run, f"the record says {kept.verdict}, the queue {remote.reason}")


def _wrong_at(client: Client, found: Mapping[str, RemoteRun]) -> Iterator[Wrong]:
    """Compare a client's copy with the server's folder, and its exit code."""
    if not client.run:
        return
    copy, reason = RunPaths(client.person.runs / client.run), found[client.run].reason
    origin = RunPaths(client.person.site.runs / client.run)
    if origin.record.exists():
        for name in FILES:
            if _bytes(copy.root / name) != _bytes(origin.root / name):
                yield Wrong(client.run, f"the copy of {name} differs")
        if client.printed != _bytes(origin.stdout):
            yield Wrong(client.run, "the client printed something else")
    if (client.exit_code == 0) is not (reason is Reason.DONE):
        yield Wrong(client.run, f"exit code {client.exit_code}, but {reason}")


def _record(paths: RunPaths) -> RunRecord | None:
    with suppress(FileNotFoundError):
        return record.from_json(paths.record.read_bytes())
    return None


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _left_behind(site: Site) -> list[str]:
    """Return the commands of processes of runs that go on after all have ended."""

    def commands() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if PRINTS in words or f"{site.runs}/" in words:
                    found.append(words[:200])
        return found

    with suppress(AssertionError):
        until(lambda: not commands(), "something goes on", LEFT_BEHIND_S)
    return commands()
