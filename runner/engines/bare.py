"""The bare engine: run commands on this machine without isolation.

It is meant for one's own project, where no sandbox works. The run's folders are
ordinary temporary ones, so a command must find them by RAI_SOURCE_DIR and the like.
Only CUDA_VISIBLE_DEVICES keeps a command from GPUs that the run was not given.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

from runner import commandline, process
from runner.archive import source
from runner.core import (
    BuildSpec,
    Command,
    EngineFacts,
    GpuWay,
    Problem,
    Step,
    Workspace,
)
from runner.core.cancel import Cancel
from runner.core.events import CommandFinished, Event, Starting, Usage
from runner.engines import launch, leftovers
from runner.engines.disk import FolderDiskWatch
from runner.engines.environment import environment
from runner.engines.folders import MARK, Folders, temporary
from runner.engines.imageless import Imageless
from runner.engines.local.host import TIME, host
from runner.engines.local.tools import provide, redirected
from runner.engines.sequence import in_order
from runner.gpu.watch import visible_devices

UNENFORCED = ("memory", "pids", "network", "shm", "isolation")
FIXED = re.compile(r"(?<![\w./})-])/(src|build)\b(?!-)")
NAMES = {"src": "$RAI_SOURCE_DIR", "build": "$RAI_BUILD_DIR"}
"""What holds the paths of these folders, with every engine."""

DATA = "/data"


class BareEngine(Imageless):
    """The engine that runs commands directly; ``time`` is where GNU time may be."""

    name = "bare"

    def __init__(self, *, time: Path = TIME) -> None:
        self._time = time

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return a problem for each command that names /src or /build."""
        return [p for command in spec.commands if (p := _refusal(command)) is not None]

    def facts(self) -> EngineFacts:
        """Return what is not enforced, which is nearly everything."""
        return EngineFacts(
            self.name, how="no sandbox", confines=False, unenforced=UNENFORCED
        )

    def run(self, work: Workspace, cancel: Cancel) -> Iterator[Event]:
        """Run the steps, yield the build folder, and remove everything it made."""
        leftovers.remove()
        with ExitStack() as stack:
            folders = stack.enter_context(temporary(work.run_id))
            watch = self.watch(work.gpu)
            run = _BareRun(work, cancel, folders, time=self._time)
            stack.callback(process.kill_marked, MARK, run.mark)
            run.prepare()
            yield Starting("commands")
            yield from watch.around(GpuWay.NODES, in_order(work, cancel, run.execute))
            yield Usage(run.largest_bytes)
            process.kill_marked(MARK, run.mark)
            yield from self.build_folder(folders.build)


def _refusal(command: Command) -> Problem | None:
    found = FIXED.search(command.text)
    if found is None:
        return None
    return Problem(
        f"the command names {found[0]}, which exists only in a sandbox",
        command.place,
        f"write {NAMES[found[1]]} in its place, or use --engine local or docker, which"
        " need bubblewrap or a Docker Engine",
    )


class _BareRun:
    """The folders and the environment that the commands of one job share."""

    def __init__(
        self, work: Workspace, cancel: Cancel, folders: Folders, *, time: Path
    ) -> None:
        self._work, self._cancel, self._folders = work, cancel, folders
        self._needs_time = not os.access(time, os.X_OK)
        self.mark = folders.root.name
        self.largest_bytes: int | None = None
        self._environment = self._names()
        self._bash = shutil.which("bash", path=self._environment["PATH"]) is not None
        self._disk = FolderDiskWatch(
            folders.build, folders.scratch, limit_bytes=work.limits.disk_bytes
        )

    def prepare(self) -> None:
        """Write the project, its data and replacement programs into the folders."""
        with self._work.open_source() as stream:
            source.unpack(stream, self._folders.source)
        tools = str(self._folders.tools)
        provide(self._folders, host(), time=self._needs_time, seen_at=tools)
        self._folders.data.mkdir()
        for mount in self._work.data:
            below = mount.directory.removeprefix(DATA).lstrip("/")
            folder = self._folders.data / below
            folder.mkdir(parents=True, exist_ok=True)
            for file in mount.files:
                (folder / file.name).symlink_to(file.path.absolute())

    def execute(
        self, step: Step, time_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one command; return how it ended."""
        limits = self._work.limits
        ended = yield from process.stream(
            self._argv(step),
            timeout_s=time_s,
            cancel=self._cancel,
            output_limit=limits.output_bytes,
            grace_s=limits.stop_grace_s,
            index=step.index,
            env=self._environment,
            cwd=self._folders.build,
            watch=self._disk,
        )
        self.largest_bytes = max(self.largest_bytes or 0, ended.max_rss_bytes)
        reason = ended.reason or self._disk.look()
        return CommandFinished(
            step.index, ended.exit_code, ended.wall_s, ended.cpu_s, reason
        )

    def _argv(self, step: Step) -> list[str]:
        invocation = step.invocation
        if self._needs_time:
            invocation = redirected(invocation, str(self._folders.tools))
        words = commandline.argv(invocation, self._bash)
        return launch.with_limits(words, self._work.limits)

    def _names(self) -> dict[str, str]:
        names = environment(
            source=str(self._folders.source),
            build=str(self._folders.build),
            data=str(self._folders.data),
            user=os.environ.get("USER", "rai"),
            home=str(Path.home()),
            shell=os.environ.get("SHELL", "/bin/sh"),
            image=self._work.image or "",
            gpus=visible_devices(self._work),
            first_on_path=(f"{self._folders.tools}/bin", str(host().bin)),
            base=os.environ,
        )
        names |= {"TMPDIR": str(self._folders.scratch), MARK: self.mark}
        return names | dict(self._work.environment)
