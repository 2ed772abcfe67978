"""What a host can do now: looked up again once it is some seconds old."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable

from msgspec import json

from runner import __version__, machine, process
from runner.core import Problem
from runner.core.errors import RaiError
from runner.jobhost.gpus_out import GpusOut
from runner.jobhost.survey import MachineSurvey
from runner.store.paths import Home
from runner.wire.host import HostFacts, HostGpu

FRESH_S = 60.0
FRESH_IN_TROUBLE_S = 10.0
SURVEYED_WITHIN_S = 120.0
"""More than a driver that hangs takes to be given up."""

Look = Callable[[], MachineSurvey]
"""What looks at the engines and GPUs of a machine."""


class MachineFacts:
    """The facts of this machine; the engines are looked at beside who asks."""

    def __init__(self, home: Home, gpus: GpusOut, survey: Look) -> None:
        self._home, self._gpus, self._survey = home, gpus, survey
        self._machine = machine.describe()
        self._first = threading.Event()
        self._looking = threading.Lock()
        self._found = MachineSurvey()
        self._begun = 0.0  # of the last look, since 1970
        self._ended_s = float("-inf")

    def now(self) -> HostFacts:
        """Return the facts; only the first call waits for a look at the engines."""
        self._look_again()
        self._first.wait()
        found, out = self._found, self._gpus.words()
        return HostFacts(
            __version__,
            found.engines,
            tuple(
                HostGpu(one.uuid, one.name, _why(out.get(one.uuid, ""), one.problem))
                for one in found.gpus
            ),
            () if found.engines else found.problems,
            shutil.disk_usage(self._home.root).free,
            self._machine.memory_bytes,
            self._machine.cores,
            unenforced=found.unenforced,
        )

    def _look_again(self) -> None:
        trouble = not self._found.engines
        fresh_s = FRESH_IN_TROUBLE_S if trouble else FRESH_S
        old = time.monotonic() - self._ended_s > fresh_s
        if not old and not self._gpus.due(self._begun):
            return
        if self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, name="rai-survey", daemon=True).start()

    def _look(self) -> None:
        try:
            begun = time.time()
            self._found = self._survey()
            self._begun = begun
            seen = {gpu.uuid: gpu.problem for gpu in self._found.gpus}
            self._gpus.looked(seen, begun)
        finally:
            self._ended_s = time.monotonic()
            self._first.set()
            self._looking.release()


def _why(out: str, problem: str) -> str:
    return "; ".join(filter(None, (out, problem)))


def surveyed() -> MachineSurvey:
    """Look at this machine, in a process of its own."""
    argv = [sys.executable, "-m", "runner.jobhost.survey"]
    try:
        done = process.run(argv, timeout_s=SURVEYED_WITHIN_S)
        return json.decode(done.stdout, type=MachineSurvey)
    except RaiError as error:
        return MachineSurvey(problems=error.problems)
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        text = f"the engines cannot be looked at: {last[:500]}"
        return MachineSurvey(problems=(Problem(text),))
