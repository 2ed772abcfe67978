"""The folders and the container of a run, whose commands are steps of the job."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path

from runner import commandline, files, process
from runner.archive.datafiles.room import check_disk
from runner.core import DataFile, Problem, Profile, Reason, Step, Stream, Workspace
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.core.events import CommandFinished, Event, Output, Tick
from runner.core.terminal import Terminal
from runner.engines import datafile, launch
from runner.engines.disk import FolderDiskWatch
from runner.engines.environment import environment
from runner.engines.folders import MARK, Folders
from runner.engines.imageless import fill
from runner.engines.local.start_marker import StartMarker
from runner.engines.pyxis import words
from runner.engines.pyxis.asking import last_lines, passed_on
from runner.engines.pyxis.words import NodeMount, Reported
from runner.gpu.watch import visible_devices

REPORT_BYTES = 1000
LINGER_S = 2.0
"""How long a step may last after its command ended."""

REPORTS = "/run/rai-reports"
DATA = "/data"

Pulled = tuple[str, bool]
"""A container of an image, and whether the image has bash."""


class ContainerRun:
    """The folders and the container that the commands of one job share."""

    kind = "container"
    peak_bytes = None

    def __init__(
        self,
        work: Workspace,
        cancel: Cancel,
        folders: Folders,
        environ: Mapping[str, str],
        options: frozenset[str],
        pulled: Pulled,
    ) -> None:
        self._work, self._cancel, self.folders = work, cancel, folders
        self._environ, self._options = environ, options
        self._name, self._bash = pulled
        self._mark = folders.root.name
        self._reports = folders.root / "reports"
        self._room = process.room(work.limits.output_bytes)
        self._disk = FolderDiskWatch(
            folders.build,
            folders.scratch,
            limit_bytes=work.limits.disk_bytes,
            processes=partial(process.marked, MARK, self._mark),
        )

    def prepare(self) -> None:
        """Write the project and its data into the folders; list what is mounted."""
        fill(self.folders, self._work)
        self._reports.mkdir()
        self.folders.data.mkdir()
        strict = self._work.profile is Profile.STRICT
        self._binds = [
            NodeMount(self.folders.source, "/src", writable=not strict),
            NodeMount(self.folders.build, "/build", writable=True),
            NodeMount(self.folders.scratch, "/tmp", writable=True),
            NodeMount(self._reports, REPORTS, writable=True),
            NodeMount(self.folders.data, DATA),
        ]
        for mount in self._work.data:
            below = mount.directory.removeprefix(DATA).lstrip("/")
            for file in mount.files:
                self._place(file, f"{below}/{file.name}".lstrip("/"))
        for bind in self._binds:
            if words.NOT_IN_MOUNTS.search(f"{bind.source}{bind.target}"):
                text = f"{bind.source} has a character that srun cannot mount"
                hint = "set TMPDIR to a path of letters and digits"
                raise EngineError(Problem(text, hint=hint))

    def execute(
        self, step: Step, time_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one command as a step of the job; return how it ended."""
        marker, token = StartMarker(), secrets.token_hex(8)
        limits = self._work.limits
        self._room[Stream.STDERR] += len(marker.text)  # which is not the command's own
        command = commandline.argv(step.invocation, self._bash)
        inside = launch.with_limits(command, limits, marker.text, exported=True)
        stream = process.stream(
            self._argv(words.wrapped(REPORTS, token, inside)),
            input=words.variables(self._names(), self._work.variables(step)),
            timeout_s=time_s,
            cancel=self._cancel,
            room=self._room,
            grace_s=limits.stop_grace_s,
            index=step.index,
            env=words.environment_of(self._environ),
            cwd=Path("/"),
            watch=partial(self._watch, _Lingering(self._reports / token, self.clear)),
            terminate=lambda _: self._signal(signal.SIGTERM),
        )
        ended = yield from marker.strip(_without_usage(stream))
        self.clear()  # srun may be killed, and leave its step behind
        self._room[Stream.STDERR] += len(marker.before)
        return self._finished(step, token, ended, marker)

    def interact(
        self, step: Step, time_s: float, terminal: Terminal
    ) -> CommandFinished:
        """Raise EngineError, as ``shell`` does before."""
        raise EngineError("the pyxis engine has no terminals")

    def clear(self) -> None:
        """Kill what the commands left running on this node."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        process.kill_marked(MARK, self._mark, number)

    def _watch(self, lingering: _Lingering) -> Reason | None:
        lingering.look()
        return self._disk()

    def _finished(
        self, step: Step, token: str, ended: process.Ended, marker: StartMarker
    ) -> CommandFinished:
        """Return how a command ended; raise EngineError if it never started."""
        said = self._reported(token)
        if not marker.seen and said is None and ended.reason is None:
            why = last_lines(marker.before)
            raise EngineError(f"srun did not start the command: {why}")
        if said is None and ended.exit_code == 0 and ended.reason is None:
            raise EngineError("srun ended, but not how the command ended is known")
        reason = ended.reason or self._disk.look()
        code = ended.exit_code if said is None else said.exit_code
        return CommandFinished(
            step.index,
            code,
            self._wall_s(token, ended),
            said.cpu_s if said else None,
            reason,
        )

    def _reported(self, token: str) -> Reported | None:
        with suppress(OSError):
            data = files.read_below(self._reports, token, REPORT_BYTES)
            return words.reported(data.decode(errors="replace"))
        return None

    def _wall_s(self, token: str, ended: process.Ended) -> float:
        """Return the time between the reports' two files, or that of the whole step.

        A limit counts from the start of the step.
        """
        with suppress(OSError):
            end = (self._reports / token).lstat().st_mtime
            wall_s = end - (self._reports / f"{token}.start").lstat().st_mtime
            if ended.reason is None:
                return min(max(wall_s, 0.0), ended.wall_s)
        return ended.wall_s

    def _argv(self, command: list[str]) -> list[str]:
        assert self._work.image is not None  # workplace refuses that
        container = words.container(
            self._options,
            self._name,
            self._work.image,
            self._work.profile,
            self._binds,
        )
        gpus = visible_devices(self._work)
        # Which of the job's GPUs are the run's, CUDA_VISIBLE_DEVICES tells programs.
        exported = passed_on(self._environ) | {
            MARK: self._mark,
            "NVIDIA_VISIBLE_DEVICES": "all" if gpus else "void",
            "NVIDIA_DRIVER_CAPABILITIES": "all",
        }
        return words.srun(self._environ, container, exported, command)

    def _names(self) -> dict[str, str]:
        compatible = self._work.profile is Profile.COMPATIBLE
        return environment(
            user="root" if compatible else "rai",
            shell="/bin/bash" if self._bash else "/bin/sh",
            image=self._work.image or "",
            gpus=visible_devices(self._work),
        )

    def _place(self, file: DataFile, name: str) -> None:
        """Mount a data file, or copy one that may become another before it is."""
        place = self.folders.data / name
        place.parent.mkdir(parents=True, exist_ok=True)
        source = file.path.absolute()
        target = f"{DATA}/{name}"
        if file.within is None and not words.NOT_IN_MOUNTS.search(f"{source}{target}"):
            place.touch()
            self._binds.append(NodeMount(source, target))
            return
        check_disk(place.parent, file.size_bytes)
        blocks = datafile.content(file)
        with place.open("wb") as out:
            out.writelines(takewhile(lambda _: not self._cancel.requested, blocks))


class _Lingering:
    """Ends a step whose command ended, but whose output a child holds open."""

    def __init__(self, report: Path, end: Callable[[], None]) -> None:
        self._report, self._end = report, end
        self._seen: float | None = None

    def look(self) -> None:
        """Kill what is left of the step LINGER_S after its report came."""
        now = time.monotonic()
        if self._seen is None and os.path.lexists(self._report):
            self._seen = now
        if self._seen is not None and now > self._seen + LINGER_S:
            self._seen = now
            self._end()


def _without_usage(
    stream: Generator[Output | Tick, None, process.Ended],
) -> Generator[Output | Tick, None, process.Ended]:
    """Yield a step's stream; what srun uses is not what the command uses."""
    try:
        while True:
            try:
                event = next(stream)
            except StopIteration as stop:
                ended: process.Ended = stop.value
                return ended
            if isinstance(event, Tick):
                event = Tick(event.index, event.elapsed_s)
            yield event
    finally:
        stream.close()
