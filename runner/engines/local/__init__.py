"""The local engine: run a job's commands in a sandbox, without Docker."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from msgspec.structs import replace

from runner.core import (
    BuildSpec,
    DataMount,
    EngineFacts,
    Problem,
    Profile,
    Reason,
    Step,
    Stream,
    Workspace,
)
from runner.core.errors import Cancel, EngineError
from runner.core.events import CommandFinished, Event, Output, Tick
from runner.core.screen import Terminal
from runner.engines import base, cgroup, launch, network
from runner.engines.folders import Folders, temporary
from runner.engines.gpu.watch import files, groups, nodes, visible_devices
from runner.engines.imageless import Imageless, Workplace, fill
from runner.engines.launch import SYSTEM_PATH, environment
from runner.engines.local import sandbox
from runner.engines.local.layout import (
    NO_GPUS,
    NVIDIA,
    TIME,
    TOOLS,
    Gpus,
    hidden,
    host,
    lay_out,
)
from runner.engines.local.seccomp import filters, provide, redirected, write_guards
from runner.pack import source
from runner.pack.data_rules import check_disk
from runner.spec import commandline
from runner.system import child, machine, process
from runner.system.child import Ended

KILLED = 137
READABLE_BY_ALL = 0o004
DRIVERS_OWN = {
    "PATH": ":".join((*SYSTEM_PATH, f"{NVIDIA}/bin")),
    "LD_LIBRARY_PATH": f"{NVIDIA}/lib64",
}
"""Search paths that end with the driver's programs and libraries."""


class LocalEngine(Imageless):
    """The engine that runs each command in a new sandbox over the run's folders.

    ``kind`` restricts it to "bubblewrap" or "unshare"; ``time`` is where GNU time may
    be. All commands of a run share one /tmp.
    """

    name = "local"

    def __init__(self, *, kind: str | None = None, time: Path = TIME) -> None:
        self._kind, self._time = kind, time

    def check(self, spec: BuildSpec) -> list[Problem]:
        """Return a problem if no sandbox works here, or none with a network."""
        search = self._search()
        if search.sandbox is not None:
            return [*network.missing()] if spec.limits.network else []
        return [
            Problem(
                f"no sandbox works on this machine ({'; '.join(search.failures)})",
                hint="install bubblewrap, and allow this user to make user namespaces",
            )
        ]

    def facts(self) -> EngineFacts:
        """Return which sandbox is used, and which limits it cannot enforce."""
        found = self._search().sandbox
        if found is None:
            return EngineFacts(self.name)
        limits = () if cgroup.available() else ("memory", "pids")
        calls = () if filters() else ("system calls",)
        return EngineFacts(
            self.name,
            sandbox.version(found.kind),
            found.kind,
            unenforced=(*limits, *calls),
        )

    @contextmanager
    def workplace(self, work: Workspace, cancel: Cancel) -> Iterator[_SandboxRun]:
        """Make the folders and the control group of a run, and remove them."""
        found = self._search().sandbox
        if found is None:
            raise EngineError(*self.check(BuildSpec("")), reason=Reason.NO_ENGINE)
        with ExitStack() as stack:
            folders = stack.enter_context(temporary(work.run_id))
            group = None
            if cgroup.available():
                group = cgroup.Group(work.run_id, work.limits)
                stack.callback(group.close)
                names = "\n".join(map(str, group.folders))
                folders.groups.write_text(names)
            joined = None
            if work.limits.network:
                joined = stack.enter_context(network.connected(work.private))
            run = _SandboxRun(
                work, cancel, found, folders, group, self._gpus_of(work), joined
            )
            run.prepare()
            yield run

    def _search(self) -> sandbox.Search:
        return sandbox.find(self._kind, self._time)

    def _gpus_of(self, work: Workspace) -> Gpus:
        """Return the device files of the granted GPUs, and the driver's files."""
        if work.gpu is None:
            return NO_GPUS
        shown = nodes(work.gpu, self.machine)
        return Gpus(shown, files(self.machine, NVIDIA), groups(shown))


class _SandboxRun(Workplace):
    """The folders, the layout and the group that the commands of one job share."""

    kind = "sandbox"

    def __init__(
        self,
        work: Workspace,
        cancel: Cancel,
        found: sandbox.Sandbox,
        folders: Folders,
        group: cgroup.Group | None,
        gpus: Gpus,
        joined: network.NetworkNamespace | None,
    ) -> None:
        super().__init__(work, cancel, folders, _variables(work), self._processes)
        self._sandbox, self._group = found, group
        self._gpus, self._network = gpus, joined

    @property
    def peak_bytes(self) -> int | None:
        """The most memory the job used, or its largest process without a group."""
        return self._group.peak_bytes if self._group else self._largest_bytes

    def prepare(self) -> None:
        """Write the project and replacement programs; compute the layout."""
        owner = self._sandbox.owner
        fill(self.folders, self._work, owner)
        provide(self.folders, host(), time=self._sandbox.time != "host")
        if owner:
            source.change_owner(self.folders.scratch, owner)
        self._layout = lay_out(
            self.folders,
            host(),
            limits=self._work.limits,
            profile=self._work.profile,
            data=[self._mountable(mount) for mount in self._work.data],
            owner=owner,
            overlay=self._sandbox.time == "overlay",
            gpus=self._gpus,
            filter=write_guards(self.folders),
            resolver=network.resolver(self.folders) if self._network else None,
            hidden=() if owner else hidden(self.folders),
        )

    def execute(
        self, step: Step, time_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one command in a sandbox; return how it ended."""
        marker = StartMarker()
        before = self._counts()
        limits = self._work.limits
        self._room[Stream.STDERR] += len(marker.text)  # which is not the command's own
        variables = self._work.variables(step)
        words = launch.with_limits(
            self._words(step), limits, marker.text, exported=bool(variables)
        )
        stream = process.stream(
            self._confined(words),
            input=launch.exports(variables) if variables else None,
            timeout_s=time_s,
            cancel=self._cancel,
            room=self._room,
            grace_s=limits.stop_grace_s,
            index=step.index,
            env=_own_environment(),
            watch=self._disk,
            terminate=_terminate_inside,
        )
        ended = yield from marker.strip(stream)
        return self._finished(step, ended, before, marker)

    def interact(
        self, step: Step, time_s: float, terminal: Terminal
    ) -> CommandFinished:
        """Run one command in a sandbox with a terminal; return how it ended."""
        from runner.system.interactive import interact

        marker = StartMarker()
        before = self._counts()
        variables = self._work.variables(step)
        words = launch.on_terminal(
            str(host().python),
            marker.text,
            launch.with_limits(
                self._words(step),
                self._work.limits,
                exported=bool(variables),
                terminal=True,
            ),
        )
        done = interact(
            self._confined(words),
            terminal,
            input=launch.exports(variables) if variables else None,
            timeout_s=time_s,
            cancel=self._cancel,
            env=_own_environment(),
            watch=self._disk,
            owner=self._sandbox.owner,
        )
        marker.search(done.said)
        if done.ended.exit_code != KILLED:
            before = self._counts()  # the command itself met no limit
        return self._finished(step, done.ended, before, marker)

    def _finished(
        self,
        step: Step,
        ended: child.Ended,
        before: cgroup.Counts,
        marker: StartMarker,
    ) -> CommandFinished:
        """Return how a command ended; raise EngineError if it never started."""
        after = self._counts()
        killed = after.memory_kills > before.memory_kills
        reason = ended.reason
        if reason is None and ended.exit_code:
            if killed:
                reason = Reason.MEMORY_LIMIT
            elif after.refused_processes > before.refused_processes:
                reason = Reason.PIDS_LIMIT
        reason = reason or self._disk.look()
        if not marker.seen and reason is None:
            raise EngineError(f"the sandbox did not start: {marker.before.strip()}")
        self._note_memory(ended)
        return CommandFinished(
            step.index, ended.exit_code, ended.wall_s, ended.cpu_s, reason, killed
        )

    def _words(self, step: Step) -> Sequence[str]:
        invocation = step.invocation
        if self._sandbox.time == "named":
            invocation = redirected(invocation)
        return commandline.argv(invocation, self._bash)

    def _confined(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command in the sandbox."""
        command = launch.with_environment(self._environment, command)
        groups = self._group.joins if self._group else []
        command = self._sandbox.argv(self._layout, command)
        if self._network:
            command = self._network.argv(command)
        return launch.in_groups(groups, command)

    def _processes(self) -> list[int]:
        if self._group:
            return self._group.processes
        return machine.descendants(os.getpid())

    def _counts(self) -> cgroup.Counts:
        return self._group.counts if self._group else cgroup.job_counts_here()

    def _mountable(self, mount: DataMount) -> DataMount:
        """Copy the data files that cannot be mounted by their paths.

        A path into the project may become a link before it is mounted, and the
        sandbox's user may not read every file that root may.
        """
        files = list(mount.files)
        for number, file in enumerate(files):
            if file.within is None and (
                self._sandbox.owner is None
                or file.path.stat().st_mode & READABLE_BY_ALL
            ):
                continue
            copy = self.folders.data / mount.key / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            check_disk(copy.parent, file.size_bytes)
            blocks = base.content(file)
            with copy.open("wb") as out:
                out.writelines(takewhile(lambda _: not self._cancel.requested, blocks))
            copy.chmod(READABLE_BY_ALL | stat.S_IRUSR)
            files[number] = replace(file, path=copy, within=None)
        return replace(mount, files=tuple(files))


def _variables(work: Workspace) -> dict[str, str]:
    """Return the environment of a run's commands."""
    names = environment(
        user="root" if work.profile is Profile.COMPATIBLE else "rai",
        shell="/bin/bash" if Path("/bin/bash").exists() else "/bin/sh",
        image=work.image or "",
        gpus=visible_devices(work),
        first_on_path=(f"{TOOLS}/bin", str(host().bin)),
        base=DRIVERS_OWN if work.gpu else {},
    )
    packages = host().user_base
    return names | ({"PYTHONUSERBASE": str(packages)} if packages else {})


def _own_environment() -> dict[str, str]:
    """Return what programs see that run as root: nothing of the job's environment."""
    return {"PATH": os.environ.get("PATH", os.defpath)}


def _terminate_inside(pid: int) -> None:
    """Send SIGTERM to the processes in the sandbox, but not to its first ones."""
    for below in machine.descendants(pid)[1:]:
        with suppress(ProcessLookupError):
            os.kill(below, signal.SIGTERM)


class StartMarker:
    """A random marker, and what was printed before it.

    The last step before the command prints it on stderr. What comes before it is the
    sandbox's own output; if it never comes, the sandbox failed.
    """

    def __init__(self) -> None:
        self.text = os.urandom(8).hex()
        self.seen = False
        self.before = ""

    def strip(
        self, stream: Generator[Output | Tick, None, Ended]
    ) -> Generator[Output | Tick, None, Ended]:
        """Yield a command's stream without the marker and what came before it."""
        printed = base.WithResult(stream)
        with closing(stream):
            for event in printed:
                if (
                    self.seen
                    or isinstance(event, Tick)
                    or event.stream is not Stream.STDERR
                ):
                    yield event
                elif rest := self.search(event.data.decode(errors="surrogateescape")):
                    data = rest.encode(errors="surrogateescape")
                    yield replace(event, data=data)
        return printed.result

    def search(self, text: str) -> str:
        """Look for the marker in more of what was printed; return what follows it."""
        self.before += text
        before, found, rest = self.before.partition(self.text)
        if found:
            self.seen, self.before = True, before
        return rest
