"""Run a job: make the containers and volumes of the run, and remove them.

The project is sent through the engine's API into a volume, not mounted by its path, so
that an engine on another machine works alike. It goes through a helper container that
is never started, and the build folder comes back through it: the engine copies nothing
into the commands' own container, whose root is read-only.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from runner import engines
from runner.core import GpuWay, Problem, Reason, Workspace
from runner.core.errors import Cancel, EngineError
from runner.core.events import (
    STOPPED,
    BuildFolder,
    CommandSkipped,
    Event,
    Progress,
    Starting,
    Usage,
    Warned,
)
from runner.core.policy import PrivateTarget
from runner.core.screen import Terminal
from runner.engines import base, network
from runner.engines.base import in_order
from runner.engines.cgroup import NO_JOB, JobShare, may_leave_group
from runner.engines.docker import confinement, owner, volumes
from runner.engines.docker import gpu as options
from runner.engines.docker.attach import hold_stdin, upload
from runner.engines.docker.client import (
    FAILURES,
    APIError,
    Client,
    explained,
    failing,
    image,
    make_idle,
    remove_container,
    removed,
    went_away,
)
from runner.engines.docker.gpu import GpuSupport
from runner.engines.docker.owner import reap
from runner.engines.docker.steps import Steps
from runner.engines.docker.usage import PROCESSES, groups_of
from runner.spec import images
from runner.system import machine, process

THREADS = 4
PROGRESS_S = 0.2
CLEAR_TIME_S = 30.0

SLACK_S = 3600.0
"""The time beside that of its commands after which a container ends by itself.

It starts before the project is sent, which may take long. An hour later other machines'
runs may remove what is left of it.
"""

CLOSE_S = 30.0
MOST_BYTES = 1 << 16


def run(
    client: Client,
    work: Workspace,
    cancel: Cancel,
    support: GpuSupport | None,
    terminal: Terminal | None = None,
    share: JobShare = NO_JOB,
    *,
    closes: bool = False,
) -> Generator[Event, None, None]:
    """Run the steps in a new container, and remove everything it made.

    ``support`` is None for a run without GPUs. With ``terminal`` each step gets a
    terminal of its own, used from that one. ``share`` is what a Slurm job leaves the
    container. ``closes`` says that this user can close private addresses to a container
    of this engine.
    """
    work, lowered = share.fitted(work)
    pool = ThreadPoolExecutor(THREADS, "docker")
    stage = RunContainers(client, work, cancel, support, share, closes=closes)
    watch = options.watch_grant(client, work.gpu, support, lambda: stage.container)
    try:
        reaping = pool.submit(_reap, client)
        yield Starting()
        if lowered:
            yield Warned(lowered)
        try:
            yield from stage.set_up(pool)
        except EngineError as error:
            stage.blame_architecture(error)
            raise
        if cancel.requested:
            for step in work.steps:
                why, line = step.skip or STOPPED, step.command
                yield CommandSkipped(step.index, line.text, why, line.name)
            return
        if work.gpu is not None:
            # The container of a killed run may still compute on the GPU that it held.
            wait([reaping])
        try:
            with Steps(client, stage.container, work, cancel) as steps:
                execute = (
                    partial(steps.interact, terminal) if terminal else steps.execute
                )
                commands = in_order(work, cancel, execute)
                yield from watch.around(stage.way, commands)
                yield Usage(steps.counters.peak_memory_bytes)
        except EngineError as error:
            # The folder outlives the container.
            if not went_away(error):
                with suppress(EngineError):
                    yield from stage.build_folder(pool, idle=False)
            stage.blame_architecture(error)
            raise
        yield from stage.build_folder(pool, idle=steps.idle)
        reaping.result()
    finally:
        stage.clear(pool)
        pool.shutdown(wait=False, cancel_futures=True)
        client.close()  # its idle connections; a process may make many runs


def _reap(client: Client) -> None:
    engines.reap()
    reap(client, machine.this_process())


class RunContainers:
    """The containers and volumes of one run; ``container`` runs the commands.

    ``way`` is how that container got its GPUs; None without any. ``closes`` says that
    this user can close private addresses to it, ``share`` what a Slurm job leaves it.
    """

    def __init__(
        self,
        client: Client,
        work: Workspace,
        cancel: Cancel,
        support: options.GpuSupport | None = None,
        share: JobShare = NO_JOB,
        *,
        closes: bool = False,
    ) -> None:
        self._client, self._work, self._cancel = client, work, cancel
        self._support, self._closes = support, closes and work.limits.network
        self._share, self._group = share, share.group
        self._failures: list[tuple[GpuWay, str]] = []
        self._not_closed = ""
        self.way: GpuWay | None = None
        safe = re.sub(r"[^a-zA-Z0-9_.-]", "-", work.run_id)
        self.name = f"rai-{safe}-{secrets.token_hex(4)}"
        self.container = ""
        self._held: Callable[[], None] = lambda: None
        self._files = ""
        self._lasts_s = work.limits.time_s + work.more_s + SLACK_S
        self._labels = owner.labels(work.run_id, self._lasts_s)
        self._image = work.image or ""
        self._sent = 0
        self._leaving = False
        self._tasks: list[Future[None]] = []

    def set_up(self, pool: ThreadPoolExecutor) -> Iterator[Event]:
        """Start the container and send the project at the same time."""
        self._tasks = [pool.submit(self._start), pool.submit(self._send_source)]
        sent = 0
        while wait(self._tasks, timeout=PROGRESS_S).not_done:
            if self._sent != sent:
                sent = self._sent
                yield Progress("upload", sent, None)
        if not self._cancel.requested:
            with failing("set up the run"):
                for task in self._tasks:
                    task.result()
        for way, why in self._failures:
            yield Warned(f"no GPU by {way.words}: {why}; trying another way")
        if self._group != self._share.group:
            yield Warned(
                "the engine cannot start the container in the control group of Slurm"
                f" job {self._share.job}; it runs beside the job, within its cores and"
                " memory"
            )
        if self._not_closed:
            yield Warned(f"private addresses are not closed: {self._not_closed}")

    def build_folder(self, pool: ThreadPoolExecutor, *, idle: bool) -> Iterator[Event]:
        """Remove the commands' container, and yield the build folder.

        If nothing runs in the container (``idle``), both happen at the same time.
        """
        ending = pool.submit(remove_container, self._client, self.container)
        if not idle:
            wait([ending], timeout=CLEAR_TIME_S)
        with failing("return the build folder"):
            pieces, _ = self._client.get_archive(self._files, "/build")
            for piece in pieces:
                yield BuildFolder(piece)
        wait([ending], timeout=CLEAR_TIME_S)
        self.container = ""

    def blame_architecture(self, error: EngineError) -> None:
        """Raise ImageError if the engine's machine cannot run the image.

        Some engines tell that when a container starts, others let it end at once.
        """
        wanted = own = ""
        if error.reason not in (Reason.INTERNAL, Reason.IMAGE_NOT_FOUND):
            return
        with contextlib.suppress(*FAILURES):
            wanted = image(self._client, self._image)["Architecture"]
            own = self._client.info()["Architecture"]
        if images.differ(wanted, own):
            raise images.unsuitable(self._image, wanted, own) from error

    def clear(self, pool: ThreadPoolExecutor) -> None:
        """Remove everything; ``reap`` of a later run removes what is left."""
        self._leaving = True
        wait(self._tasks, timeout=CLEAR_TIME_S)
        # By their names: a container may exist though the engine's answer was lost.
        # Volumes after them, as a container has these.
        for ends, remove in (
            (("", "-files"), partial(remove_container, self._client)),
            (("-src", "-build"), partial(removed, self._client.remove_volume)),
        ):
            going = [pool.submit(remove, self.name + end) for end in ends]
            wait(going, timeout=CLEAR_TIME_S)
        self._held()
        owner.tidy(self._group)
        if self._work.data:
            with contextlib.suppress(*FAILURES):
                volumes.trim(self._client, self._work.data_kept_bytes)

    def _start(self) -> None:
        client, work = self._client, self._work
        self._fill()
        variables = image(client, self._image)["Config"].get("Env") or []
        for gpu in options.grant_options(work.gpu, self._support):
            if self._started(gpu, variables):
                return
        raise options.all_failed(self._failures)

    def _started(self, gpu: options.GpuOptions, variables: list[str]) -> bool:
        """Start the container with these GPU options; return whether it started."""
        client = self._client
        try:
            self.container = self._created(gpu, variables)
            self._fill()  # again: what no container had, others may have removed
            # Before it starts, so that it never runs with nobody to hold it.
            self._held = hold_stdin(client, self.container)
            client.start(self.container)
            if self._closes:
                by, targets = self._work.strict_limits, self._work.private
                self._not_closed = _connect(client, self.container, targets, by)
        except APIError as error:
            failure = _not_started(error, self._image)
            why = " ".join(explained(error).split())
            if self._group and may_leave_group(why):
                owner.tidy(self._group)
                self._group = ""
                self._forget()
                return self._started(gpu, variables)
            if gpu.way is None or failure.problems[0].hint:
                raise failure from error
            self._failures.append((gpu.way, why))
            self._forget()
            return False
        self.way = gpu.way
        return True

    def _forget(self) -> None:
        """Remove a container that did not start."""
        if self.container:
            remove_container(self._client, self.container)
            self._held()
            self.container = ""

    def _fill(self) -> None:
        work = self._work
        if work.data:
            most = work.data_kept_bytes
            labels, sent = self._labels, self._count
            volumes.fill(self._client, self._image, work.data, labels, sent, most)

    def _created(self, gpu: options.GpuOptions, variables: list[str]) -> str:
        work, client = self._work, self._client
        options = confinement.host_options(
            work,
            self.name,
            self._labels,
            gpu,
            replace(self._share, group=self._group),
            closes=self._closes,
        )
        made = client.create_container(
            self._image,
            name=self.name,
            **confinement.keeper(work.profile, self._lasts_s),
            working_dir="/build",
            environment=confinement.variables(work, variables, gpu),
            labels=self._labels,
            healthcheck=confinement.NO_HEALTHCHECK,
            host_config=client.create_host_config(**options),
        )
        return str(made["Id"])

    def _send_source(self) -> None:
        mounts = confinement.mounts(self.name, self._labels, source_read_only=False)
        name = f"{self.name}-files"
        client, labels = self._client, self._labels
        self._files = make_idle(client, self._image, name, labels, mounts)
        who = confinement.user(self._work.profile)
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(self._work.open_source())
            build = None
            if self._work.open_build is not None:
                build = stack.enter_context(self._work.open_build())
            members = volumes.workspace(source, who, build)
            pieces = volumes.in_blocks(members, self._count)
            upload(client, self._files, "/", pieces, self._count)

    def _count(self, size: int) -> None:
        self._sent += size
        if self._cancel.requested or self._leaving:
            raise EngineError("the upload was stopped")


def _not_started(error: APIError, name: str) -> EngineError:
    why: Any = error.explanation or error
    if "/bin/sh" in str(why) or '"sleep"' in str(why):
        text = f"the image {name} has no /bin/sh, which rai needs to run commands in it"
        return EngineError(
            Problem(text, hint="use an image with a shell and coreutils"),
            reason=Reason.IMAGE_NOT_FOUND,
        )
    return EngineError(f"the container cannot be started: {why}")


def _connect(
    client: Client, container: str, targets: Sequence[PrivateTarget], by: str = ""
) -> str:
    """Close a running container to private addresses; then connect it to the bridge.

    It was started without a network, so that nothing in it was connected before.
    ``targets`` are what a policy opens. Return why it is not closed to them, "" if it
    is; ``by`` is what asks for strict limits, if something does.

    Raises:
        NotAllowedError: it cannot be closed here, and limits are strict.
        EngineError: the engine or the kernel fails; it stays unconnected.
    """
    with failing("connect the container"):
        found = client.inspect_container(container)
        why = _close(found, targets)
        if why and by:
            raise base.lost("the bar to private addresses", why, by)
        client.disconnect_container_from_network(container, "none")
        client.connect_container_to_network(container, "bridge")
    return why


def _close(found: dict[str, Any], targets: Sequence[PrivateTarget]) -> str:
    """Close a container's namespace; return why that is not possible here, or ""."""
    pid = found["State"]["Pid"]
    if not pid:
        raise EngineError("the container ended as soon as it was started")
    try:
        with Path(found["ResolvConfPath"]).open(errors="replace") as lines:
            servers = network.name_servers(lines.read(MOST_BYTES))
    except OSError as error:
        return str(error)
    if not groups_of(pid, found["Id"]):
        return "the container has no process that is visible here"
    namespace = str(PROCESSES / str(pid) / "ns" / "net")
    rules = network.rules_here(servers, targets)
    done = process.run(network.command(rules, namespace), timeout_s=CLOSE_S)
    if done.exit_code:  # though ``network.refusal`` found that the kernel takes them
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise EngineError(f"private addresses were not closed: {said}")
    return ""
