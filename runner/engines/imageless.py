"""The base of engines without images, and the temporary folders of their runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

from runner import engines
from runner.core import (
    BuildSpec,
    Gpu,
    GpuGrant,
    GpuSituation,
    GpuWay,
    ImageFacts,
    ImagePlan,
    Step,
    Workspace,
)
from runner.core.errors import Cancel
from runner.core.events import (
    BuildFolder,
    CommandFinished,
    Event,
    Starting,
    Usage,
    Warned,
)
from runner.core.screen import Terminal
from runner.engines import cgroup
from runner.engines.base import WithResult, in_order
from runner.engines.disk import FolderDiskWatch
from runner.engines.gpu.watch import OnThisMachine, Watch
from runner.pack import Project, source
from runner.system import files, machine, process, trees
from runner.system.child import Ended

PREFIX = "rai-"
MOST_GROUPS_BYTES = 1 << 16
MARK = "RAI_MARK"
"""The variable that names a process' folder, where no sandbox holds the process."""


class Folders:
    """The folders of one run; the name of ``root`` is unique on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "src"  # the unpacked project: /src
        self.build = root / "build"  # the commands' working folder: /build
        self.scratch = root / "tmp"  # the commands' /tmp
        self.home = self.scratch / "home"
        self.tools = root / "tools"  # replacements for programs that the host lacks
        self.overlay = root / "overlay"  # programs to be shown in /usr/bin
        self.data = root / "data"  # copies of data files that cannot be mounted
        self.mount = root / "root"  # where the sandbox's root is mounted
        self.empty = root / "empty"  # no files; shown in place of what is hidden
        self.filter = root / "filter"  # of system calls
        self.resolver = root / "resolv.conf"  # names the run's name server
        self.groups = root / "groups"  # names the run's control groups, for any session
        self.lock = root / "lock"  # held by the process that made the folders


@contextmanager
def temporary(name: str) -> Iterator[Folders]:
    """Make a run's folders, for this user alone; remove them on exit.

    Their name tells the process too, as it may be killed before it has the lock.
    """
    prefix = f"{PREFIX}{name}-{machine.this_process().tag}-"
    folders = Folders(Path(tempfile.mkdtemp(prefix=prefix)))
    lock = -1
    try:
        lock = _locked(folders)
        own = (folders.source, folders.build, folders.home)
        for folder in (*own, folders.mount, folders.empty):
            folder.mkdir(parents=True)
        folders.scratch.chmod(0o1777)
        yield folders
    finally:
        trees.remove(folders.root)
        if lock >= 0:
            os.close(lock)


def _locked(folders: Folders) -> int:
    """Make the lock file, and lock it before it gets its name."""
    new = folders.lock.with_suffix(".new")
    handle = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    new.rename(folders.lock)
    return handle


def reap() -> list[str]:
    """Remove the folders of processes that were killed; return their names.

    First kill the processes that are still marked with a folder's name. Others' folders
    may have such a name too, and a file ``lock`` in them; but none names a process.
    """
    reaped = []
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError):  # another user's, or removed meanwhile
            if machine.tagged(root.name) and _abandoned(root):
                machine.kill_marked(MARK, root.name)
                _remove_groups(Folders(root))
                trees.remove(root)
                reaped.append(root.name)
    return reaped


def _remove_groups(left: Folders) -> None:
    with suppress(OSError, ValueError):
        listed = files.read_below(left.root, left.groups.name, MOST_GROUPS_BYTES)
        for line in listed.decode().splitlines():
            cgroup.remove_left(Path(line))


def _abandoned(root: Path) -> bool:
    if root.lstat().st_uid != os.getuid():
        return False
    try:
        handle = os.open(Folders(root).lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:  # killed before it had the lock, or while it removed all
        return machine.has_ended(root.name)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


class Workplace(ABC):
    """Where the commands of one run are run, and what they share.

    ``kind`` says what it is; ``processes`` returns those that may have its files open.
    """

    kind: str

    def __init__(
        self,
        work: Workspace,
        cancel: Cancel,
        folders: Folders,
        environment: dict[str, str],
        processes: Callable[[], Iterable[int]],
    ) -> None:
        self._work, self._cancel, self.folders = work, cancel, folders
        self._environment = environment
        self._bash = shutil.which("bash", path=environment["PATH"]) is not None
        self._room = process.room(work.limits.output_bytes)
        self._disk = FolderDiskWatch(
            folders.build,
            folders.scratch,
            limit_bytes=work.limits.disk_bytes,
            processes=processes,
        )
        self._largest_bytes: int | None = None

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that the commands used."""
        return self._largest_bytes

    @abstractmethod
    def execute(
        self, step: Step, time_s: float
    ) -> Generator[Event, None, CommandFinished]:
        """Run one command; return how it ended."""

    @abstractmethod
    def interact(
        self, step: Step, time_s: float, terminal: Terminal
    ) -> CommandFinished:
        """Run one command on a terminal of its own, used from another."""

    def clear(self) -> None:  # noqa: B027 - nothing outlives a sandbox
        """Kill what the commands left running."""

    def _note_memory(self, ended: Ended) -> None:
        """Note what a command's largest process took."""
        self._largest_bytes = max(self._largest_bytes or 0, ended.max_rss_bytes)


class Imageless(OnThisMachine):
    """An engine whose runs have a workplace on this machine, and no image.

    The code about GPUs is imported only for runs that ask for one.
    """

    def workplace(
        self, work: Workspace, cancel: Cancel
    ) -> AbstractContextManager[Workplace]:
        """Make the place for a run's commands; remove everything of it on exit."""
        raise NotImplementedError

    def run(
        self, work: Workspace, cancel: Cancel, terminal: Terminal | None = None
    ) -> Generator[Event, None, None]:
        """Run the steps, yield the build folder, and remove everything it made."""
        engines.reap()
        watch = self.watch(work.gpu)
        with self.workplace(work, cancel) as place:
            execute = partial(_interact, place, terminal) if terminal else place.execute
            yield Starting(place.kind)
            yield from watch.around(GpuWay.NODES, in_order(work, cancel, execute))
            yield Usage(place.peak_bytes)
            place.clear()
            yield from _build_folder(place.folders.build)

    def image_facts(self, project: Project, spec: BuildSpec) -> ImageFacts | None:
        """Return None: there are no images."""
        return None

    def prepare(
        self, plan: ImagePlan, project: Project, cancel: Cancel
    ) -> Iterator[Event]:
        """Yield nothing: there is no image to prepare."""
        return iter(())

    def gpus(self, image: str | None = None) -> GpuSituation:
        """Return this machine's GPUs, which commands use by their device files."""
        from runner.engines.gpu import access, nvidia

        return access.local(self.machine, nvidia.states(self.machine.gpus))

    def hold(self, gpu: Gpu, run_id: str) -> AbstractContextManager[None]:
        """Lock a GPU against all other runs of this machine."""
        from runner.engines.gpu import nvidia

        return nvidia.hold(gpu, run_id)

    def watch(self, grant: GpuGrant | None) -> Watch:
        """Start watching the GPUs of a run, if it has any."""
        if grant is None:
            return Watch()
        from runner.engines.gpu import nvidia

        return Watch(grant, nvidia.states, at_once=True)


Owner = tuple[int, int]
"""A user and a group by their numbers."""


def fill(folders: Folders, work: Workspace, owner: Owner | None = None) -> None:
    """Write the project and the first content of the build folder."""
    with work.open_source() as stream:
        source.unpack(stream, folders.source, owner)
    if work.open_build is not None:
        with work.open_build() as stream:
            source.unpack(stream, folders.build, root="build")
    if owner is not None:
        source.change_owner(folders.build, owner)


def _interact(
    place: Workplace, terminal: Terminal, step: Step, time_s: float
) -> Generator[Event, None, CommandFinished]:
    yield from ()
    return place.interact(step, time_s, terminal)


def _build_folder(folder: Path) -> Iterator[Event]:
    """Yield the build folder, and a warning if something stays behind."""
    packed = WithResult(source.pack(folder, "build"))
    yield from map(BuildFolder, packed)
    if packed.result:
        yield Warned(
            "left out of the build folder: what is nested in over"
            f" {source.DEEPEST:,} folders, or has a path of over"
            f" {source.LONGEST_NAME:,} bytes"
        )
