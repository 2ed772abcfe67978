"""Run one run as a job of a cluster: `python -m runner.execution.node FOLDER`.

The order lies in the run's folder. Nobody waits for an answer: the record tells all. A
job that Slurm starts a second time finds the run claimed. It stays while the first
worker lives, since Slurm might end that one with the job, and then ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from runner.core import Reason
from runner.core.errors import Cancel, RaiError
from runner.execution import session, slurm_programs
from runner.execution.slurm_jobs import SILENT_S, JobStage, how_ended, shown, stage
from runner.execution.worker import cancel_on_signals, order_of, refuse
from runner.store.claim import Claim, ClaimedError
from runner.store.paths import RunPaths
from runner.store.run_files import LifeSign, beat_age_s
from runner.system import files

ENDED = "Slurm told the job to end"
LOOK_S = 1.0
SENT_S = 0.5
NODE = "SLURMD_NODENAME"
ANSWERS_WITHIN_S = 3.0
"""Much less than Slurm waits between SIGTERM and SIGKILL: 30 s, unless a site says."""


_STATE, _REASON, _PREEMPTED, _RESTARTS = 20, 128, 20, 12
ARGUMENTS = (
    "--noheader",
    "--all",
    "--states=all",
    f"--Format=State:{_STATE},Reason:{_REASON},PreemptTime:{_PREEMPTED}"
    f",RestartCnt:{_RESTARTS}",
)
_LINE = _STATE + _REASON + _PREEMPTED + _RESTARTS


class NodeCancel(Cancel):
    """A request to stop, of which Slurm knows the reason where it tells the job to.

    The commands are told to end at once, as Slurm's signal may reach them too. The
    reason, which is asked for beside, is waited for where it is read.
    """

    def __init__(self) -> None:
        self._asking: threading.Thread | None = None
        super().__init__()

    def by_slurm(self) -> None:
        """Request it for what Slurm says; a second signal changes nothing."""
        if self._asking is None:
            self.request(ENDED)
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()

    def _ask(self) -> None:
        if state := ends_as(os.environ):
            found = how_ended(state)
            limit = found in (Reason.TIME_LIMIT, Reason.MEMORY_LIMIT)
            reason = found if limit else Reason.CANCELLED
            self.request(f"{ENDED}: {shown(state)}", reason)

    @property
    def end(self) -> tuple[Reason, str]:
        """How the run ends, and why it was requested."""
        if self._asking is not None:
            self._asking.join(ANSWERS_WITHIN_S)
        return super().end


def main() -> int:
    """Run the run whose folder is named; return 0 however it ended."""
    paths = RunPaths(Path(sys.argv[1]))
    cancel = NodeCancel()

    def stop() -> None:
        if paths.cancel.exists():
            cancel.request()
        else:
            cancel.by_slurm()

    cancel_on_signals(cancel, stop)
    try:
        claim = Claim(paths, os.environ.get(NODE, ""))
    except ClaimedError:
        print(f"run {paths.id} was claimed before; waiting for its end", flush=True)
        _wait_for_first(paths)
        return 0
    except FileNotFoundError:
        text = f"{paths.root} is not on this node: RAI_HOME has to be on a file system"
        print(f"{text} that the login node and the nodes share", file=sys.stderr)
        return 1
    with claim, LifeSign(paths), _sent_soon(paths):
        return _run(paths, claim, cancel)


@contextmanager
def _sent_soon(paths: RunPaths) -> Iterator[None]:
    """Have others see soon what is printed.

    A network file system keeps for half a minute what is written to an open file.
    """
    over = threading.Event()

    def work() -> None:
        sent: dict[Path, int] = {}
        while not over.wait(SENT_S):
            for path in (paths.stdout, paths.stderr, paths.events):
                # The file system may be away for a while.
                with suppress(OSError), files.open_regular(path) as file:
                    size = os.fstat(file.fileno()).st_size
                    if size != sent.get(path):
                        os.fdatasync(file.fileno())
                        sent[path] = size

    threading.Thread(target=work, name="rai-send", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _run(paths: RunPaths, claim: Claim, cancel: Cancel) -> int:
    try:
        with files.disk_faults(paths.root):
            asked = order_of(paths)
            os.environ |= asked.terms.settings
            for _ in session.resume(paths, claim, asked).events(cancel):
                pass
    except RaiError as error:
        print(error, file=sys.stderr)
        refuse(paths, error)
    return 0


def _wait_for_first(paths: RunPaths) -> None:
    """Wait for the end of the worker that has the run."""
    while paths.root.is_dir() and not paths.record.exists():
        if beat_age_s(paths, files.time_there(paths.root)) > SILENT_S:
            return
        time.sleep(LOOK_S)


def ends_as(environ: Mapping[str, str]) -> str:
    """Return the state that the job with an environment will end in.

    It is "" outside of a job, and where Slurm does not say.
    """
    number = environ.get("SLURM_JOB_ID", "")
    restarts = environ.get("SLURM_RESTART_COUNT", "")
    if not number:
        return ""
    try:
        printed = slurm_programs.answer(["squeue", *ARGUMENTS, f"--jobs={number}"])
    except RaiError:
        return ""
    return next_state(printed, int(restarts) if restarts.isdecimal() else 0)


def next_state(output: bytes, restarts: int) -> str:
    """Return the state that a job will end in, by what squeue printed of it.

    The job is then COMPLETING, whatever comes after, or still RUNNING where a
    preemption leaves it some time. So its reason, the time of a preemption and how
    often it was put back into the queue tell what Slurm is about.

    ``restarts`` is the job's own SLURM_RESTART_COUNT, 0 without. It is "" where Slurm
    does not end the job, or printed something else.
    """
    line = output[:_LINE].decode("ascii", errors="replace")
    if len(line) < _LINE:
        return ""
    state, reason = line[:_STATE].rstrip(), line[_STATE:][:_REASON].rstrip()
    preempted = line[_STATE + _REASON :][:_PREEMPTED].rstrip()[:1].isdigit()
    count = line[-_RESTARTS:].rstrip()
    more = count.isascii() and count.isdigit() and int(count) > restarts
    if stage(state) is JobStage.OVER:
        return state
    if reason == "TimeLimit":
        return "TIMEOUT"
    if more or stage(state) is JobStage.WAITING:
        return "REQUEUED"
    if preempted:
        return "PREEMPTED"
    return "CANCELLED" if state == "COMPLETING" else ""


if __name__ == "__main__":
    sys.exit(main())
