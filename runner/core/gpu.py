"""GPUs: a machine's, the ways to them, what a run was given, faults it reported."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from runner.core.errors import Reason


class GpuWay(StrEnum):
    """How a container or sandbox gets access to a GPU, in order of preference."""

    REQUEST = "request"
    CDI = "cdi"
    NODES = "nodes"

    @property
    def words(self) -> str:
        """Return the name to show to a person."""
        return _WAYS[self]


_WAYS = {
    GpuWay.REQUEST: "device request (nvidia-container-toolkit)",
    GpuWay.CDI: "CDI",
    GpuWay.NODES: "device nodes and the driver's libraries",
}


class Gpu(Struct, frozen=True):
    """One GPU, or one MIG slice, that a run can be given.

    ``index`` is NVML's; a slice has the index of its GPU, whose UUID is ``parent``.
    ``nodes`` are the device files of this GPU alone. ``compute`` is e.g. "9.0".
    """

    uuid: str
    name: str
    index: int
    nodes: tuple[str, ...] = ()
    memory_bytes: int = 0
    compute: str = ""
    parent: str = ""

    @property
    def shown(self) -> str:
        """Its number, name and UUID."""
        return f"GPU {self.index} ({self.name}, {self.uuid})"


class GpuProcess(Struct, frozen=True):
    """Another process on a GPU; ``memory_bytes`` is None if unknown."""

    pid: int
    name: str
    memory_bytes: int | None = None


class GpuState(Struct, frozen=True):
    """The state of a GPU at one moment; None for what cannot be read.

    ``throttle`` are NVML's reasons for a lower clock, in its words; ``processes`` is
    None if they cannot be listed. ``problem`` says that the GPU is lost, or that its
    memory is damaged.
    """

    uuid: str
    sm_clock_mhz: int | None = None
    sm_clock_most_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    problem: str = ""

    @property
    def answers(self) -> bool:
        """Whether it reports anything but a problem; a lost GPU does not."""
        seen = (self.sm_clock_mhz, self.temperature_c, self.power_w, self.processes)
        return not self.problem or any(value is not None for value in seen)


class HostGpus(Struct, frozen=True):
    """The facts about a machine's GPUs, which all decisions are made from.

    ``driver`` is the kernel module's version, e.g. "580.159.04". ``nodes`` are the
    device files that every GPU needs (``/dev/nvidiactl`` and its like); ``libraries``
    pairs of a name that the loader looks for and the file that has it; ``programs`` are
    files such as nvidia-smi. ``cdi`` are the device names of the machine's CDI
    specifications; ``toolkit`` is where nvidia-container-toolkit's hook is. ``lost``
    describes each GPU that cannot be used. ``problem`` says why no GPU was found,
    ``hint`` what to do. ``system`` is linux, wsl, macos or windows. ``sliced`` names
    each GPU in MIG mode; ``gpus`` has its slices in its place. ``allotted`` is what
    chose ``gpus`` among those of the machine, e.g. a Slurm job; ``withheld`` are the
    others.
    """

    system: str
    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    nodes: tuple[str, ...] = ()
    libraries: tuple[tuple[str, str], ...] = ()
    programs: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    toolkit: str = ""
    lost: tuple[str, ...] = ()
    problem: str = ""
    hint: str = ""
    sliced: tuple[str, ...] = ()
    allotted: str = ""
    withheld: tuple[Gpu, ...] = ()


class WayTried(Struct, frozen=True):
    """One way to access a GPU; ``problem`` says why it is not available, if so."""

    way: GpuWay
    problem: str = ""


class GpuSituation(Struct, frozen=True):
    """The GPUs that an engine offers, and the ways to access them, in order.

    ``gpus`` is None if only a container can see them (a remote engine); ``states`` are
    their states at that moment. Without a way or a GPU, ``problem`` and ``hint`` say
    why and what to do. ``out`` are GPUs that no run gets, by their UUIDs, and why.
    ``allotted`` and ``withheld`` are as in HostGpus.
    """

    ways: tuple[WayTried, ...] = ()
    gpus: tuple[Gpu, ...] | None = ()
    driver: str = ""
    problem: str = ""
    hint: str = ""
    states: tuple[GpuState, ...] = ()
    out: Mapping[str, str] = field(default_factory=dict)
    allotted: str = ""
    withheld: tuple[Gpu, ...] = ()

    @property
    def open(self) -> tuple[GpuWay, ...]:
        """The available ways, the preferred one first."""
        return tuple(tried.way for tried in self.ways if not tried.problem)

    @property
    def any(self) -> bool:
        """Whether a run could be given a GPU, as far as is known."""
        return bool(self.open) and (self.gpus is None or bool(self.gpus))


class GpuGrant(Struct, frozen=True):
    """The GPUs that a run holds, and the ways of access to try, in order."""

    gpus: tuple[Gpu, ...]
    ways: tuple[GpuWay, ...]
    driver: str = ""

    @property
    def uuids(self) -> str:
        """The UUIDs in the form of CUDA_VISIBLE_DEVICES."""
        return ",".join(gpu.uuid for gpu in self.gpus)


class GpuUse(Struct, frozen=True):
    """The GPUs that a run was given, how, and their states before and after it."""

    way: GpuWay
    gpus: tuple[Gpu, ...]
    driver: str = ""
    before: tuple[GpuState, ...] = ()
    after: tuple[GpuState, ...] = ()


class DockerGpus(Struct, frozen=True):
    """The facts that a Docker Engine reports about GPUs.

    ``here`` is whether it runs on this machine's kernel and sees its files.
    ``runtimes`` are the names of its runtimes, ``cdi_folders`` the folders where it
    looks for CDI specifications (none if CDI is off), ``cdi_devices`` the devices it
    found there, which an engine before Docker 28.2 does not report.
    """

    api_version: str
    here: bool = True
    runtimes: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    cdi_folders: tuple[str, ...] = ()


class GpuFaultKind(StrEnum):
    """What went wrong, in words for people, and the reason that it is for a run.

    Without a reason that depends on whether the run was given a GPU.
    """

    words: str
    reason: Reason | None

    def __new__(cls, value: str, words: str, reason: Reason | None) -> GpuFaultKind:
        """Create a member that is a string and carries the rest."""
        member = str.__new__(cls, value)
        member._value_, member.words, member.reason = value, words, reason
        return member

    OUT_OF_MEMORY = "out_of_memory", "the GPU ran out of memory", Reason.GPU_MEMORY
    ILLEGAL_ADDRESS = (
        "illegal_address",
        "a kernel accessed an illegal address",
        Reason.GPU_FAULT,
    )
    LAUNCH_FAILED = "launch_failed", "a kernel failed", Reason.GPU_FAULT
    NO_CODE = "no_code", "the program has no code for this GPU", Reason.GPU_FAULT
    DEVICE_LOST = (
        "device_lost",
        "the GPU was lost, damaged or not available",
        Reason.GPU_ERROR,
    )
    DRIVER_ERROR = "driver_error", "the GPU's driver failed", None
    DRIVER_TOO_OLD = (
        "driver_too_old",
        "the GPU's driver is too old for its CUDA",
        Reason.NO_GPU,
    )
    NO_DEVICE = "no_device", "the program found no GPU", None


class GpuFault(Struct, frozen=True):
    """A fault, and the line of output that reported it, shortened.

    Only the program reports it; rai has not checked it.
    """

    kind: GpuFaultKind
    line: str

    def reason(self, given: bool) -> Reason:
        """Return the reason for a run that was, or was not, given a GPU.

        A program that was given a GPU and finds none ran on a broken machine. One that
        was given none needs a GPU, and cannot have lost one.
        """
        if self.kind is GpuFaultKind.DEVICE_LOST and not given:
            return Reason.COMMAND_FAILED
        return self.kind.reason or (Reason.GPU_ERROR if given else Reason.NO_GPU)
