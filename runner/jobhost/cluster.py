"""The cluster of a job host: its runs are jobs of Slurm, on a shared file system.

The host's home folder has to be on that file system. What is free, and which nodes take
jobs, is asked of sinfo every few seconds; while the controller is away nothing starts,
and what goes on is not touched.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from runner import __version__, places, session
from runner.core import Problem
from runner.core.errors import RaiError
from runner.core.order import Order
from runner.core.variables import Secrets
from runner.jobhost.gpus_out import GpusOut
from runner.places import Worker
from runner.places.slurm import SlurmWorker, programs, watch
from runner.session.slurm import needs_of
from runner.slurm.jobs import JobStage, stage
from runner.slurm.nodes import ClusterNode
from runner.slurm.submission import JobNeeds
from runner.slurm.target import SlurmTarget
from runner.store import claim
from runner.store import settings as stored
from runner.store.paths import Home, RunPaths
from runner.store.settings import Settings
from runner.wire.host import HostFacts, HostGpu, HostNode, HostRun, StartRun
from runner.wire.remote_runs import QueueState

FRESH_S = 3.0
IN_TROUBLE_S = 5.0
SHARE = 10
"""A look that takes long is followed by a pause of so many times its length."""

MOST_GPUS = 4096
"""How many GPUs of nodes are listed one by one."""

ENGINE = "RAI_ENGINE"


class NodesSeen(Struct, frozen=True):
    """The nodes as they were ``at`` a time; ``problem`` says why there is no news."""

    nodes: tuple[ClusterNode, ...] = ()
    at: float = 0.0
    problem: Problem | None = None


class SlurmCluster:
    """A partition of the cluster whose Slurm this machine has."""

    def __init__(self, home: Home, target: SlurmTarget, settings: Settings) -> None:
        self._home, self._target = home, target
        self._options, self._settings = settings.slurm, stored.variables(settings)
        self._gpus = GpusOut(home.root, whose="a GPU of this node")
        self._seen = NodesSeen()
        self._first = threading.Event()
        self._looking = threading.Lock()
        self._next_s = float("-inf")

    def facts(self) -> HostFacts:
        """Return the nodes; only the first call waits for Slurm's answer."""
        self._look_again()
        self._first.wait()
        seen, out = self._seen, self._gpus.words()
        nodes = tuple(_host_node(node, out.get(node.name, "")) for node in seen.nodes)
        return HostFacts(
            __version__,
            () if seen.problem else (str(self._target),),
            _gpus_of(nodes),
            (seen.problem,) if seen.problem else (),
            shutil.disk_usage(self._home.root).free,
            sum(node.memory_bytes for node in seen.nodes),
            sum(node.cores for node in nodes),
            nodes,
            seen.at,
            str(self._home.root),
        )

    def worker(self, order: Order, request: StartRun) -> Worker:
        """Return what submits a run's job, but for nodes whose GPUs failed."""
        known = {node.name for node in self._seen.nodes}
        out = sorted(known & self._gpus.words().keys())
        extra = (f"--exclude={','.join(out)}",) if out else ()
        # Nothing of this process's environment says on the node what it does here.
        order = replace(order, settings={**self._settings, **order.settings})
        needs = _needs(order, request)
        return SlurmWorker(self._target, order, needs, (*self._options, *extra))

    def waits(self, paths: RunPaths) -> HostRun:
        """Return a run that Slurm has, with what it waits for in words."""
        found = watch.run_of(paths, self._home, claimed=False)
        why = found.trouble or found.stands.why or "Slurm has it"
        if found.stands.state is QueueState.WAITING and not found.trouble:
            why = f"in Slurm's queue: {why}"
        last = found.jobs[-1] if found.jobs else None
        node = last.node if last and stage(last.state) is JobStage.GOING else ""
        return HostRun(paths.id, claimed=False, ended=False, waits=why, node=node)

    def node(self, paths: RunPaths) -> str:
        """Return the node of a run: its job's, or what its worker calls its machine."""
        holder = claim.holder(paths)
        found = watch.run_of(paths, self._home, claimed=holder is not None)
        if found.jobs and found.jobs[-1].node:
            return found.jobs[-1].node
        return holder.on if holder else ""

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end; a worker is asked once, since Slurm would kill it."""
        if not paths.cancel.exists() or claim.holder(paths) is None:
            places.cancel(paths)

    def failed(self, run: HostRun) -> None:
        """Withhold from runs the node of one that ended with an error of its GPU."""
        if run.node and run.ended_at is not None:
            self._gpus.failed((run.node,), run.id, run.ended_at)

    def clear(self, name: str) -> None:
        """Let runs have a node again; ``name`` may be that of a GPU there."""
        self._gpus.clear(name.partition("/")[0])

    def _look_again(self) -> None:
        if time.monotonic() < self._next_s or not self._looking.acquire(blocking=False):
            return
        threading.Thread(target=self._look, name="rai-nodes", daemon=True).start()

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._seen = seen = self._asked()
            if seen.problem is None:
                problems = {node.name: node.why for node in seen.nodes}
                self._gpus.looked(problems, seen.at)
        finally:
            ended = time.monotonic()
            pause_s = max(FRESH_S, SHARE * (ended - began))
            self._next_s = ended + (IN_TROUBLE_S if self._seen.problem else pause_s)
            self._first.set()
            self._looking.release()

    def _asked(self) -> NodesSeen:
        at, partition = time.time(), self._target.partition
        try:
            found = programs.nodes_of(partition)
        except RaiError as error:
            # What was known last is shown still, and nothing is started there.
            return replace(self._seen, problem=error.problems[0])
        if found:
            return NodesSeen(found, at)
        text = f"no partition {partition}" if partition else "no nodes"
        hint = "`sinfo` lists the partitions and their nodes"
        return NodesSeen((), at, Problem(f"Slurm has {text}", hint=hint))


def _needs(order: Order, request: StartRun) -> JobNeeds:
    """Return what a sealed run needs; raise RaiError if it may not run.

    No role bounds cores, and the queue counts none: the site's settings say how many.
    """
    options = session.Options(
        engine=order.settings.get(ENGINE),
        secrets=Secrets(order.secrets),
        allowed=order.allowed,
    )
    paths = RunPaths(Path(order.folder))
    prepared = session.reopen(paths, options, text=order.spec_text)
    return replace(
        needs_of(prepared),
        cores=None,
        alone=request.alone,
        gpu_model=request.gpu_model,
    )


def _host_node(node: ClusterNode, out: str) -> HostNode:
    why = node.why or (out and f"takes no run of this server: {out}")
    return HostNode(
        node.name, node.cores, node.cores_free, node.gpus, node.gpus_free, why
    )


def _gpus_of(nodes: tuple[HostNode, ...]) -> tuple[HostGpu, ...]:
    """Return the GPUs of nodes, named by their node and a number of no meaning."""
    found: list[HostGpu] = []
    for node in nodes:
        models = [model for model, count in node.gpus.items() for _ in range(count)]
        why = f"node {node.name} {node.out}" if node.out else ""
        for number, model in enumerate(models[: MOST_GPUS - len(found)]):
            found.append(HostGpu(f"{node.name}/gpu{number}", model or "GPU", why))
    return tuple(found)
