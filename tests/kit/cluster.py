"""A Slurm of the tests' own: munged, a controller and nodes, all on this machine.

Everything lies in one temporary folder, at ports of its own, without a setting of the
machine's. It needs no root; who starts it is Slurm's own user. A node's GPU is a device
file that every machine has.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

PROGRAMS = (
    *("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol"),
    "setpriv",
)
SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
ANSWER_S = 30.0
PATIENCE_S = 60.0
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PORTS = range(20_000, 32_000)
"""Below those that Linux hands out by itself."""

CLUSTER, NODE = "SLURM_TEST_CLUSTER", "SLURM_TEST_NODE"
"""Name the cluster and the node in the environment of a daemon."""

AT_ONCE = {
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,bf_interval=1",
    "SlurmdTimeout": "10",
    "KillWait": "5",
}
"""Start a job as soon as it is there, and miss a node and a program soon."""


def found(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *SBIN]))


def absent() -> str | None:
    """Return why no Slurm can be started here."""
    install = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
    return None if all(map(found, PROGRAMS)) else f"apt install {install}"


class Cluster:
    """The daemons of a Slurm, each a child of this process."""

    def __init__(self, folder: Path, name: str, nodes: Sequence[str]) -> None:
        self.folder = folder
        self.name = name
        self.nodes = tuple(nodes)
        self.conf = folder / "slurm.conf"
        """For the variable SLURM_CONF."""
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    # Slurm's programs

    def ask(self, *words: str) -> str:
        """Return what one of Slurm's programs prints; fail where it fails."""
        done = subprocess.run(
            words,
            capture_output=True,
            check=False,
            env=self.environment,
            text=True,
            timeout=ANSWER_S,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}{self.logs()}"
        return done.stdout

    def submit(self, script: str, *words: str) -> int:
        """Hand over a script of a shell; return the number of its job."""
        file = self.folder / f"{uuid4().hex}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        plain = ("--parsable", "--chdir=/", "--output=/dev/null")
        return int(self.ask("sbatch", *plain, *words, str(file)).partition(";")[0])

    def state(self, job: int) -> str:
        """Return a job's state, such as RUNNING; empty where Slurm forgot the job."""
        try:
            return self.ask("squeue", "-h", "-t", "all", "-o", "%T", "-j", f"{job}")[
                :-1
            ]
        except AssertionError as error:
            if "Invalid job id" in str(error):
                return ""
            raise

    def node_states(self) -> dict[str, str]:
        """Return the state of each node, such as idle, mixed, down* or drained."""
        lines = self.ask("sinfo", "-h", "-N", "-o", "%N %t").splitlines()
        return dict(line.split() for line in lines)

    def logs(self) -> str:
        """Return the ends of all logs, for a test that fails."""
        files = sorted((self.folder / "log").iterdir())
        return "".join(f"\n-- {f.name}\n{f.read_text()[-1500:]}" for f in files)

    # The state of nodes

    def drain(self, node: str, why: str) -> None:
        """Let a node take no more jobs."""
        self._update(node, "drain", why)

    def down(self, node: str, why: str) -> None:
        """Declare a node lost, and end the jobs on it."""
        self._update(node, "down", why)

    def resume(self, node: str) -> None:
        """Let a node that was drained or down take jobs again."""
        self._update(node, "resume", "")

    def _update(self, node: str, state: str, why: str) -> None:
        said = [f"Reason={why}"] if why else []
        self.ask("scontrol", "update", f"NodeName={node}", f"State={state}", *said)

    # Daemons

    def start(self, daemon: str, node: str = "") -> None:
        """Start ``munged``, ``slurmctld``, or ``slurmd`` of a node."""
        words = {
            "munged": [
                *("--foreground", "--force", f"--key-file={self.folder}/munge.key"),
                *(
                    f"--socket={self.folder}/munge.sock",
                    f"--pid-file={self.folder}/pid",
                ),
                *(f"--seed-file={self.folder}/seed", f"--log-file={self.folder}/log/m"),
            ],
            "slurmctld": ["-D", "-f", str(self.conf)],
            "slurmd": ["-D", "-N", node, "-f", str(self.conf)],
        }
        program = found(daemon)
        assert program is not None
        log = self.folder / "log" / f"{daemon}-{node}.out"
        with log.open("ab") as said:
            self._running[daemon + node] = subprocess.Popen(
                # It ends with this process, even if that is killed.
                ["setpriv", "--pdeathsig=KILL", program, *words[daemon]],
                cwd="/",
                env={**self.environment, CLUSTER: self.name, NODE: node},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    def kill(self, daemon: str, node: str = "", with_: int = signal.SIGKILL) -> None:
        """End a daemon by a signal; what it started goes on.

        A controller that is killed forgets what changed in the seconds before.
        """
        process = self._running.pop(daemon + node)
        process.send_signal(with_)
        process.wait(PATIENCE_S)

    def power_off(self, node: str) -> None:
        """End all that runs on a node, at once and without a word."""
        if "slurmd" + node in self._running:
            self.kill("slurmd", node)
        _kill_all(lambda: self.processes(node))

    def wait(
        self, states: Iterable[str] = ("idle",), nodes: Sequence[str] = ()
    ) -> None:
        """Wait until nodes, all if none is named, are in one of these states."""
        wanted, asked = set(states), nodes or self.nodes
        self.until(lambda: {self.node_states()[node] for node in asked} <= wanted)

    def until(self, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """Wait until something holds; a controller that is away does not count."""
        until = time.monotonic() + patience_s
        while True:
            with suppress(AssertionError, subprocess.TimeoutExpired):
                if holds():
                    return
            assert time.monotonic() < until, self.logs()
            time.sleep(0.05)

    def tidy(self) -> None:
        """End all jobs, and bring daemons and nodes back that a test took away."""
        for daemon, node in self._daemons():
            if daemon + node not in self._running:
                self.start(daemon, node)
        self.until(lambda: bool(self.ask("scontrol", "ping")))
        self.ask("scancel", "--quiet", "--full", f"--user={os.geteuid()}")
        active = ("squeue", "-h", "-o", "%i")
        self.until(lambda: not self.ask(*active).split())
        for node, state in self.node_states().items():
            if state != "idle":
                with suppress(AssertionError):  # a node that comes back by itself
                    self.resume(node)
        self.wait()

    def _daemons(self) -> list[tuple[str, str]]:
        return [("munged", ""), ("slurmctld", ""), *(("slurmd", n) for n in self.nodes)]

    def stop(self) -> None:
        """End all daemons and all that they started."""
        for daemon, node in reversed(self._daemons()):
            if daemon + node in self._running:
                self.kill(daemon, node)
        _kill_all(self.processes)

    def processes(self, node: str = "") -> set[int]:
        """Return what runs of this cluster, or on one of its nodes.

        Slurm's own processes have the environment of the daemon that started them, and
        those of a job the job's.
        """
        of_cluster = {f"{CLUSTER}={self.name}", f"SLURM_CLUSTER_NAME={self.name}"}
        of_node = {f"{NODE}={node}", f"SLURMD_NODENAME={node}"}
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = set(
                    (entry / "environ").read_bytes().decode("latin-1").split("\0")
                )
                if words & of_cluster and (not node or words & of_node):
                    found.add(int(entry.name))
        return found - {os.getpid()}


@contextmanager
def cluster(
    nodes: Sequence[str] = ("n1", "n2"),
    settings: Mapping[str, str] = AT_ONCE,
    partitions: Sequence[str] = ("PartitionName=main Nodes=ALL Default=YES",),
    gpus: int = 1,
    devices: Mapping[str, Sequence[str]] | None = None,
    size: tuple[int, int] = (2, 8000),
    cgroup: str = "",
) -> Iterator[Cluster]:
    """Start a Slurm whose nodes have pretended GPUs; stop it at the end.

    Without ``settings`` jobs start as late as Slurm's scheduler starts them by default.
    ``devices`` are the device files of each node's GPUs, in place of pretended ones.
    ``size`` is the number of cores and the memory of a node, in MiB; ``cgroup`` is the
    text of cgroup.conf.
    """
    of_gpus = dict(devices or dict.fromkeys(nodes, DEVICES[:gpus]))
    folder = Path(
        tempfile.mkdtemp(prefix="rai-slurm-", dir="/tmp")
    )  # short, for a socket
    made = Cluster(folder, f"rai{uuid4().hex[:12]}", nodes)
    try:
        for part in ("log", "state", "spool"):
            (folder / part).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(1024))
        folder.chmod(0o755)  # munged wants its socket to be reached by all
        (folder / "munge.key").chmod(0o600)
        gres = [
            f"NodeName={node} Name=gpu Type=h100 File={device}"
            for node, files in of_gpus.items()
            for device in files
        ]
        (folder / "gres.conf").write_text("\n".join(gres) + "\n")
        (folder / "cgroup.conf").write_text(cgroup)
        _configure(made, settings, partitions, of_gpus, size)
        for daemon, node in made._daemons():
            made.start(daemon, node)
        made.wait()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def _configure(
    made: Cluster,
    settings: Mapping[str, str],
    partitions: Sequence[str],
    devices: Mapping[str, Sequence[str]],
    size: tuple[int, int],
) -> None:
    folder, host = made.folder, socket.gethostname().partition(".")[0]
    controller, *ports = _free_ports(1 + len(made.nodes))
    user = pwd.getpwuid(os.geteuid()).pw_name
    lines = {
        "ClusterName": made.name,
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": f"{controller}",
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.sock,cred_expire=5",
        "StateSaveLocation": f"{folder}/state",
        "SlurmdSpoolDir": f"{folder}/spool/%n",
        "SlurmctldPidFile": f"{folder}/slurmctld.pid",
        "SlurmdPidFile": f"{folder}/slurmd-%n.pid",
        "SlurmctldLogFile": f"{folder}/log/slurmctld",
        "SlurmdLogFile": f"{folder}/log/slurmd-%n",
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SchedulerType": "sched/backfill",
        "ReturnToService": "2",
        "MpiDefault": "none",
        "JobAcctGatherType": "jobacct_gather/none",
        **({"GresTypes": "gpu"} if any(devices.values()) else {}),
        **settings,
    }
    cores, memory_mib = size
    of_nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
        f" CPUs={cores} RealMemory={memory_mib}{_gres(devices.get(node, ()))}"
        " State=UNKNOWN"
        for node, port in zip(made.nodes, ports, strict=True)
    ]
    said = [f"{name}={value}" for name, value in lines.items()]
    made.conf.write_text("\n".join([*said, *of_nodes, *partitions]) + "\n")


def _gres(files: Sequence[str]) -> str:
    return f" Gres=gpu:h100:{len(files)}" if files else ""


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("", port))
            found += [port] if port not in found else []
    return found


def _kill_all(found: Callable[[], set[int]]) -> None:
    until = time.monotonic() + PATIENCE_S
    while pids := found():
        assert time.monotonic() < until, f"these live: {pids}"
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
