"""The NVIDIA GPUs of this machine, their state, and a lock for each."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from runner.core import Gpu, GpuState, HostGpus, Problem, Reason
from runner.core.errors import BusyError, EngineError
from runner.engines.gpu import access, installed, nvml
from runner.system import files
from runner.system.machine import user

if TYPE_CHECKING:
    from runner.spec import yamlfile

ROOT = Path("/")
NVML = "libnvidia-ml.so.1"


def host(root: Path = ROOT) -> HostGpus:
    """Return the facts of the machine whose files are below ``root``.

    If no NVIDIA GPU can be used, ``problem`` and ``hint`` say why.
    """
    presence = installed.detect(root)
    problem, hint = access.why(presence)
    facts = HostGpus(presence.system, presence.driver, problem=problem, hint=hint)
    if not (presence.driver or presence.cards or presence.wsl_cuda):
        return facts
    facts = replace(facts, toolkit=installed.find_program(root, *installed.HOOKS))
    if problem:
        return facts
    program = installed.find_program(root, installed.SMI)
    libraries = installed.libraries(root, presence.driver)
    facts = replace(
        facts,
        nodes=tuple(node for node in presence.nodes if node in installed.COMMON),
        libraries=libraries,
        programs=(program,) if program else (),
        cdi=_cdi_devices(root),
    )
    library = dict(libraries).get(NVML, "")
    found: nvml.GpuList | installed.SmiReport
    lost: tuple[str, ...] = ()
    try:
        found = nvml.list_gpus(installed.under(root, library))
        gpus, lost = tuple(_with_nodes(root, each) for each in found.gpus), found.lost
    except nvml.NvmlError as error:
        found = _smi_instead(root, error)
        if not found.states:
            why = access.silent(error.code, str(error), bool(library), found.problem)
            return replace(facts, problem=why[0], hint=why[1])
        minors = installed.minors(root)
        gpus = tuple(_with_node(root, minors, g, found.buses) for g in found.gpus)
    problem, hint = ("", "") if gpus else access.none_usable(lost, found.sliced)
    return replace(
        facts,
        driver=facts.driver or found.driver,
        gpus=gpus,
        lost=lost,
        sliced=found.sliced,
        problem=problem,
        hint=hint,
    )


def states(gpus: Sequence[Gpu], root: Path = ROOT) -> tuple[GpuState, ...]:
    """Return the present state of each GPU; ``problem`` says if it does not answer."""
    if not gpus:
        return ()
    library = dict(installed.libraries(root, installed.version(root))).get(NVML, "")
    try:
        return nvml.states(installed.under(root, library), gpus)
    except nvml.NvmlError as error:
        found = _smi_instead(root, error)
        errors = "; ".join(filter(None, [str(error), found.problem]))
    by_uuid = {state.uuid: state for state in found.states}
    unknown = GpuState("", problem=f"it does not answer: {errors}")
    # nvidia-smi shows the state of whole cards only.
    return tuple(
        replace(by_uuid.get(gpu.parent or gpu.uuid, unknown), uuid=gpu.uuid)
        for gpu in gpus
    )


def _smi_instead(root: Path, error: nvml.NvmlError) -> installed.SmiReport:
    """Run nvidia-smi instead of NVML, unless NVML hangs: it would hang too."""
    hangs = error.code == nvml.TIMEOUT
    return installed.SmiReport() if hangs else installed.run_smi(root)


def _with_nodes(root: Path, seen: nvml.ListedGpu) -> Gpu:
    if seen.minor is None:
        return seen.gpu
    files = [f"/dev/nvidia{seen.minor}"]
    if seen.gpu_instance is not None and seen.compute_instance is not None:
        files += installed.of_slice(
            root, seen.minor, seen.gpu_instance, seen.compute_instance
        )
    return replace(seen.gpu, nodes=installed.present(root, files))


def _with_node(
    root: Path, minors: dict[str, int], gpu: Gpu, buses: Sequence[tuple[str, str]]
) -> Gpu:
    """Add a GPU's device file."""
    # nvidia-smi writes eight digits of the PCI domain, and the kernel four.
    bus = dict(buses).get(gpu.uuid, "").lower()[4:]
    if bus not in minors:
        return gpu
    return replace(gpu, nodes=installed.present(root, [f"/dev/nvidia{minors[bus]}"]))


CDI_FOLDERS = ("etc/cdi", "var/run/cdi", "run/cdi")

MOST_CDI_BYTES = 4 << 20
"""A specification of 64 slices has a tenth of this; larger files are ignored."""


def _cdi_devices(root: Path) -> tuple[str, ...]:
    """Return full names such as nvidia.com/gpu=GPU-1b2c..., without duplicates.

    A specification (Container Device Interface, SPEC.md) is YAML or JSON, with a
    ``kind`` and ``devices`` that have a ``name`` each.
    """
    paths = [p for folder in CDI_FOLDERS for p in sorted((root / folder).glob("*"))]
    specs = [p for p in paths if p.suffix in (".yaml", ".json")]
    return tuple(dict.fromkeys(name for path in specs for name in _cdi_names(path)))


def _cdi_names(path: Path) -> list[str]:
    """Return those of one file; none if it is too large or cannot be read."""
    try:
        text = files.read(path, MOST_CDI_BYTES).decode(errors="replace")
    except OSError:
        return []
    if access.KIND not in text:
        return []
    from runner.spec import yamlfile

    spec = yamlfile.compose(text, path.name, yamlfile.Problems())
    if (
        not isinstance(spec, yamlfile.MappingNode)
        or _text(spec.get("kind")) != access.KIND
    ):
        return []
    devices = spec.get("devices")
    items = devices.items if isinstance(devices, yamlfile.SequenceNode) else ()
    named = (_text(i.get("name")) for i in items if isinstance(i, yamlfile.MappingNode))
    return [f"{access.KIND}={name}" for name in named if name]


def _text(node: yamlfile.Node | None) -> str:
    from runner.spec import yamlfile

    return node.text if isinstance(node, yamlfile.ScalarNode) else ""


LOCK_FOLDERS = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))
NAME = "rai-gpu"
ALL_MAY_MAKE = 0o1777
ALL_MAY_WRITE = 0o666
PATIENCE_S = 1.0

MOST_BYTES = 1024
"""What a holder writes about itself has a tenth of this."""


class Holder(Struct, frozen=True):
    """Who holds a GPU; ``since`` is in seconds since the epoch."""

    run: str
    user: str
    pid: int
    since: float

    def __str__(self) -> str:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"run {self.run} of {self.user} (process {self.pid}) since {clock}"


@contextmanager
def hold(gpu: Gpu, run_id: str, folder: Path | None = None) -> Iterator[None]:
    """Keep a GPU, or a slice, for one run among those of all users of this machine.

    Child processes do not inherit the lock, and two runs of one process exclude each
    other too.

    Raises:
        BusyError: another run holds it; the message names that run.
        EngineError: the lock's file cannot be opened.
    """
    place = folder or shared_folder()
    file = _locked(gpu, place)
    try:
        _write(file, Holder(run_id, user(), os.getpid(), time.time()))
        yield
    finally:
        os.ftruncate(file, 0)
        # A forked process may have a copy of the descriptor, so closing is not enough.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def shared_folder() -> Path:
    """Return the folder for the locks of all users of this machine."""
    for place in LOCK_FOLDERS:
        with suppress(OSError):
            mode = place.stat().st_mode
            if stat.S_ISDIR(mode) and mode & ALL_MAY_MAKE == ALL_MAY_MAKE:
                return place / NAME
    return LOCK_FOLDERS[-1] / NAME


def _locked(gpu: Gpu, place: Path) -> int:
    """Return the descriptor of the GPU's locked file, which still has its name."""
    path = place / (re.sub(r"[^\w-]", "_", gpu.uuid) + ".lock")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            file = _open(path)
        except OSError as error:
            # Another user may be about to make it writable for all.
            if time.monotonic() > deadline:
                raise _unusable(path, error) from error
            time.sleep(0.01)
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_named(file, path):
                return file
        except BlockingIOError:
            held = _read(file)
            os.close(file)
            raise BusyError(_busy(gpu, held)) from None
        os.close(file)


def _open(path: Path) -> int:
    """Open a lock's file of any user, or make it."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(FileExistsError):
        path.parent.mkdir()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _allow(folder, ALL_MAY_MAKE)
        try:
            file = os.open(path.name, flags, dir_fd=folder)
        except FileNotFoundError:
            new = flags | os.O_CREAT | os.O_EXCL
            file = os.open(path.name, new, ALL_MAY_WRITE, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        _refuse_link(file)
        _allow(file, ALL_MAY_WRITE)
    except OSError:
        os.close(file)
        raise
    return file


def _refuse_link(file: int) -> None:
    """Raise OSError if it is a hard link or not a regular file."""
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        raise OSError("it is a link, or not a regular file")


def _allow(file: int, mode: int) -> None:
    """Set the mode of a file that this user made, whatever the umask was."""
    facts = os.fstat(file)
    if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != mode:
        os.fchmod(file, mode)


def _still_named(file: int, path: Path) -> bool:
    """Whether the file was not removed before it was locked."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(now, os.fstat(file))


def _write(file: int, holder: Holder) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, dumps(asdict(holder)).encode(), 0)


def _read(file: int) -> Holder | None:
    """Return what the holder wrote about itself; None if it is malformed.

    Any user may have written it, so numbers may be out of range and nesting deep.
    """
    with suppress(ValueError, TypeError, OSError, ArithmeticError, RecursionError):
        holder = Holder(**loads(os.pread(file, MOST_BYTES, 0)))
        if str(holder).isprintable():
            return holder
    return None


def _busy(gpu: Gpu, held: Holder | None) -> Problem:
    who = f"held by {held}" if held else "held by another run"
    return Problem(f"GPU {gpu.index} ({gpu.name}, {gpu.uuid}) is {who}")


def _unusable(path: Path, error: OSError) -> EngineError:
    return EngineError(
        Problem(
            f"the GPU's lock {path} cannot be opened: {error.strerror or error}",
            hint=f"ask its owner to remove {path.parent}, or make it writable for all"
            " (mode 1777, its files 666)",
        ),
        reason=Reason.GPU_ERROR,
    )
