"""Where a job host has its runs carried out: on this machine, or on a cluster."""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from runner import places
from runner.core.order import Order
from runner.jobhost.facts import Look, MachineFacts, surveyed
from runner.jobhost.gpus_out import GpusOut
from runner.places import Worker
from runner.store.paths import Home, RunPaths
from runner.wire.host import HostFacts, HostRun, StartRun


class Carrier(Protocol):
    """What a job host asks of the machines that carry runs out."""

    def facts(self) -> HostFacts:
        """Return what they can do now."""

    def worker(self, order: Order, request: StartRun) -> Worker:
        """Return what carries a run out whose folder is whole.

        Raises:
            RaiError: it cannot be carried out there.
        """

    def waits(self, paths: RunPaths) -> HostRun:
        """Return a run that was handed over and has not begun."""

    def node(self, paths: RunPaths) -> str:
        """Return the node of a cluster that has a run; "" where it is not known."""

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end, maybe repeatedly; raise FileNotFoundError for none."""

    def failed(self, run: HostRun) -> None:
        """Withhold from runs the GPUs of one that ended with their error."""

    def clear(self, name: str) -> None:
        """Let runs have a GPU again that was out."""


class ThisMachine:
    """This machine, which is looked at by ``survey``."""

    def __init__(self, home: Home, survey: Look = surveyed) -> None:
        self._gpus = GpusOut(home.root)
        self._facts = MachineFacts(home, self._gpus, survey)

    def facts(self) -> HostFacts:
        """Return what it can do now."""
        return self._facts.now()

    def worker(self, order: Order, request: StartRun) -> Worker:
        """Start a worker process."""
        return places.LocalWorker(replace(order, gpus_out=self._gpus.words()))

    def waits(self, paths: RunPaths) -> HostRun:
        """Return a run that no worker has claimed yet."""
        return HostRun(paths.id, claimed=False, ended=False)

    def node(self, paths: RunPaths) -> str:
        """Return "": there are no nodes."""
        return ""

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end; raise FileNotFoundError if there is none."""
        places.cancel(paths)

    def failed(self, run: HostRun) -> None:
        """Withhold from runs the GPUs of one that ended with their error."""
        if run.ended_at is not None:
            self._gpus.failed(run.gpus, run.id, run.ended_at)

    def clear(self, name: str) -> None:
        """Let runs have a GPU again that was out."""
        self._gpus.clear(name)
