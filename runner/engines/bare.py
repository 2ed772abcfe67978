"""The bare engine: run commands on this machine without isolation.

It is meant for one's own project, where no sandbox works. The run's folders are
ordinary temporary ones, so a command must find them by RAI_SOURCE_DIR and the like.
Only CUDA_VISIBLE_DEVICES keeps a command from GPUs that the run was not given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from runner.core import BuildSpec, Command, EngineFacts, Problem, Step, Workspace
from runner.core.errors import Cancel
from runner.core.events import CommandFinished, Event
from runner.core.screen import Terminal
from runner.engines import launch
from runner.engines.folders import MARK, Folders, temporary
from runner.engines.gpu.watch import visible_devices
from runner.engines.imageless import Imageless, Workplace, fill
from runner.engines.launch import environment
from runner.engines.local.layout import TIME, host
from runner.engines.local.seccomp import provide, redirected
from runner.spec import commandline
from runner.system import child, machine, process

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

    @contextmanager
    def workplace(self, work: Workspace, cancel: Cancel) -> Iterator[_BareRun]:
        """Make the folders of a run; kill what is left in them, and remove them."""
        with temporary(work.run_id) as folders:
            run = _BareRun(work, cancel, folders, time=self._time)
            try:
                run.prepare()
                yield run
            finally:
                run.clear()


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


class _BareRun(Workplace):
    """The folders and the environment that the commands of one job share."""

    kind = "commands"

    def __init__(
        self, work: Workspace, cancel: Cancel, folders: Folders, *, time: Path
    ) -> None:
        self._needs_time = not os.access(time, os.X_OK)
        processes = partial(machine.descendants, os.getpid())
        super().__init__(work, cancel, folders, _variables(work, folders), processes)

    def prepare(self) -> None:
        """Write the project, its data and replacement programs into the folders."""
        fill(self.folders, self._work)
        tools = str(self.folders.tools)
        provide(self.folders, host(), time=self._needs_time, seen_at=tools)
        self.folders.data.mkdir()
        for mount in self._work.data:
            below = mount.directory.removeprefix(DATA).lstrip("/")
            folder = self.folders.data / below
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
            room=self._room,
            grace_s=limits.stop_grace_s,
            index=step.index,
            env=self._environment | self._work.variables(step),
            cwd=self.folders.build,
            watch=self._disk,
        )
        return self._finished(step, ended)

    def interact(
        self, step: Step, time_s: float, terminal: Terminal
    ) -> CommandFinished:
        """Run one command on a terminal of its own; return how it ended."""
        from runner.system.interactive import interact

        python = str(host().python)
        done = interact(
            launch.on_terminal(python, "", self._argv(step, terminal=True)),
            terminal,
            timeout_s=time_s,
            cancel=self._cancel,
            env=self._environment | self._work.variables(step),
            cwd=self.folders.build,
            watch=self._disk,
        )
        return self._finished(step, done.ended)

    def clear(self) -> None:
        """Kill the processes that commands left behind."""
        machine.kill_marked(MARK, self.folders.root.name)

    def _finished(self, step: Step, ended: child.Ended) -> CommandFinished:
        self._note_memory(ended)
        reason = ended.reason or self._disk.look()
        return CommandFinished(
            step.index, ended.exit_code, ended.wall_s, ended.cpu_s, reason
        )

    def _argv(self, step: Step, *, terminal: bool = False) -> list[str]:
        invocation = step.invocation
        if self._needs_time:
            invocation = redirected(invocation, str(self.folders.tools))
        words = commandline.argv(invocation, self._bash)
        return launch.with_limits(words, self._work.limits, terminal=terminal)


def _variables(work: Workspace, folders: Folders) -> dict[str, str]:
    """Return the environment of a run's commands."""
    names = environment(
        source=str(folders.source),
        build=str(folders.build),
        data=str(folders.data),
        user=os.environ.get("USER", "rai"),
        home=str(Path.home()),
        shell=os.environ.get("SHELL", "/bin/sh"),
        image=work.image or "",
        gpus=visible_devices(work),
        first_on_path=(f"{folders.tools}/bin", str(host().bin)),
        base=os.environ,
    )
    return names | {"TMPDIR": str(folders.scratch), MARK: folders.root.name}
