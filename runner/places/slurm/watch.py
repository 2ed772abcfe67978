"""Why a run waits on Slurm, kept up to date in its folder while somebody watches."""

from __future__ import annotations

import threading
import time

from runner.core.errors import RaiError
from runner.places.slurm import listed
from runner.store import claim, seen
from runner.store.paths import Home, RunPaths
from runner.wire.remote_runs import RemoteRun

LOOK_S = 1.0


class SlurmWatch:
    """Asks what a run waits for until it has begun.

    ``trouble`` is why Slurm does not answer at present, "" if it does.
    """

    def __init__(self, paths: RunPaths, home: Home) -> None:
        self.paths, self.trouble = paths, ""
        self._home = home
        self._looked_s: float | None = None
        self._last: RemoteRun | None = None

    @property
    def settled(self) -> bool:
        """Whether the queue was looked at."""
        return self._looked_s is not None

    @property
    def due(self) -> bool:
        """Whether it is time to look again."""
        at_s = self._looked_s
        return at_s is None or time.monotonic() - at_s >= LOOK_S

    @property
    def doubt(self) -> str:
        """Why it is not known how the run stands, "" if it is."""
        return self.trouble

    def start(self) -> None:
        """Begin to look."""
        _WATCHED.add(self)

    def stop(self) -> None:
        """Look no more."""
        _WATCHED.remove(self)

    def check(self) -> None:
        """Do nothing: what fails here is trouble, and passes."""

    def look(self) -> None:
        """Write how the run stands, if that is news."""
        try:
            if not self.paths.record.exists():
                self._write(self._standing())
        except (OSError, RaiError) as error:
            self.trouble = str(error)
        self._looked_s = time.monotonic()

    def _write(self, found: RemoteRun) -> None:
        if found != self._last:
            seen.write(self.paths, found)
        self._last = found

    def _standing(self) -> RemoteRun:
        claimed = claim.holder(self.paths) is not None
        found = listed.run_of(self.paths, self._home, claimed=claimed)
        self.trouble = found.trouble
        return found.stands


class _Watched:
    """The watches of this process, which one thread serves as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: set[SlurmWatch] = set()
        self._serving = False
        self._added = threading.Event()

    def add(self, watch: SlurmWatch) -> None:
        with self._lock:
            self._watches.add(watch)
            begin, self._serving = not self._serving, True
        self._added.set()
        if begin:
            threading.Thread(target=self._serve, name="rai-slurm", daemon=True).start()

    def remove(self, watch: SlurmWatch) -> None:
        with self._lock:
            self._watches.discard(watch)

    def _serve(self) -> None:
        while True:
            self._added.clear()  # before the look at what there is
            with self._lock:
                watches = tuple(self._watches)
                if not watches:
                    self._serving = False
                    return
            for watch in watches:
                if watch.due:
                    watch.look()
            self._added.wait(LOOK_S)


_WATCHED = _Watched()
