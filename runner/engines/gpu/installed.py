"""What is there of GPUs and their driver, and what nvidia-smi prints."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from runner.core import MIB, Gpu, GpuProcess, GpuState
from runner.core.errors import EngineError
from runner.engines.gpu.access import NvidiaPresence
from runner.system import process
from runner.system.machine import user

NVIDIA = "0x10de"
DISPLAY_CLASS = "0x03"
DXG = "/dev/dxg"
COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", DXG)
"""The device files that CUDA programs or profilers need, on Linux and on WSL."""

WSL_CUDA = "usr/lib/wsl/lib/libcuda.so.1"
CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
SYSTEMS = {"Darwin": "macos", "Windows": "windows"}

HOOKS = ("nvidia-container-runtime-hook", "nvidia-container-toolkit")
"""The programs that Docker searches on its PATH to serve a device request."""

PROGRAM_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/local/nvidia/bin",
    "/usr/local/nvidia/toolkit",
    "/usr/lib/wsl/lib",
    "/run/current-system/sw/bin",
)

WANTED = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",
    "libnvidia-gpucomp.so.{driver}",
    "libcudadebugger.so.1",
)
"""The names by which programs, and libcuda itself, load them."""

LDCONFIG = "/sbin/ldconfig"
LDCONFIG_S = 5.0


def detect(root: Path) -> NvidiaPresence:
    """Return the signs of an NVIDIA GPU and its driver, without querying them."""
    system = _system(root)
    if system in SYSTEMS.values():
        return NvidiaPresence(system)
    driver = version(root)
    nodes = present(root, (*COMMON, *numbered(root)))
    cards, nouveau = ((), False) if driver else _cards(root)
    return NvidiaPresence(
        system,
        cards,
        nouveau,
        driver,
        nodes,
        tuple(n for n in nodes if not os.access(root / n[1:], os.R_OK | os.W_OK)),
        (root / WSL_CUDA).exists(),
        any((root / mark).exists() for mark in CONTAINER_MARKS),
        user(),
    )


def version(root: Path) -> str:
    """Return the version of the loaded kernel module; empty if none is loaded."""
    text = read(root / "proc/driver/nvidia/version")
    found = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)", text, re.MULTILINE)
    return found[1] if found else ""


def present(root: Path, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return the device files that exist."""
    return tuple(node for node in nodes if (root / node[1:]).exists())


def numbered(root: Path) -> tuple[str, ...]:
    """Return the device files of single GPUs, in the order of their numbers."""
    names = (p.name for p in (root / "dev").glob("nvidia[0-9]*"))
    found = sorted(int(n[6:]) for n in names if n[6:].isdigit())
    return tuple(f"/dev/nvidia{minor}" for minor in found)


def minors(root: Path) -> dict[str, int]:
    """Return each GPU's minor number by its PCI address in lower case."""
    found: dict[str, int] = {}
    for path in (root / "proc/driver/nvidia/gpus").glob("*/information"):
        minor = re.search(r"^Device Minor:\s*(\d+)", read(path), re.MULTILINE)
        if minor:
            found[path.parent.name.lower()] = int(minor[1])
    return found


def of_slice(
    root: Path, minor: int, gpu_instance: int, compute_instance: int
) -> Iterator[str]:
    """Yield the device files of a MIG slice, without its GPU's own.

    Written from the MIG User Guide ("Device Nodes and Capabilities"), and not tried on
    a GPU in MIG mode.
    """
    instance = f"gi{gpu_instance}"
    minors = _slice_minors(root)
    for name in (f"{instance}/access", f"{instance}/ci{compute_instance}/access"):
        number = minors.get(f"gpu{minor}/{name}", _capability(root, minor, name))
        if number is not None:
            yield f"/dev/nvidia-caps/nvidia-cap{number}"


def _slice_minors(root: Path) -> dict[str, int]:
    lines = read(root / "proc/driver/nvidia-caps/mig-minors").splitlines()
    pairs = (line.rsplit(maxsplit=1) for line in lines)
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}


def _capability(root: Path, minor: int, name: str) -> int | None:
    path = root / f"proc/driver/nvidia/capabilities/gpu{minor}/mig/{name}"
    found = re.search(r"^DeviceFileMinor:\s*(\d+)", read(path), re.MULTILINE)
    return int(found[1]) if found else None


def _system(root: Path) -> str:
    if name := SYSTEMS.get(platform.system()):
        return name
    release = read(root / "proc/sys/kernel/osrelease").lower()
    return "wsl" if "microsoft" in release else "linux"


def _cards(root: Path) -> tuple[tuple[str, ...], bool]:
    """Return the PCI addresses of NVIDIA's GPUs, and whether nouveau uses one."""
    found = []
    nouveau = False
    for card in sorted((root / "sys/bus/pci/devices").glob("*")):
        if read(card / "vendor").strip() != NVIDIA:
            continue
        if read(card / "class").startswith(DISPLAY_CLASS):
            found.append(card.name)
            with suppress(OSError):
                nouveau |= (card / "driver").readlink().name == "nouveau"
    return tuple(found), nouveau


def read(path: Path) -> str:
    """Return a file's text; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def find_program(root: Path, *names: str) -> str:
    """Return the path of the first of these programs that exists; empty if none."""
    searched = os.environ.get("PATH", "").split(":") if root == Path("/") else []
    folders = dict.fromkeys(filter(None, [*searched, *PROGRAM_FOLDERS]))
    places = (f"{folder}/{name}" for name in names for folder in folders)
    return next((p for p in places if os.access(under(root, p), os.X_OK)), "")


def under(root: Path, program: str) -> str:
    """Return a path below ``root``; empty for an empty path."""
    return str(root / program.lstrip("/")) if program else ""


def libraries(root: Path, driver: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a library's name and its real path, for those that exist."""
    names = [name.format(driver=driver) for name in WANTED if driver or "{" not in name]
    places = list(dict.fromkeys(_library_folders(root)))
    found = {name: _best(root, name, places, driver) for name in names}
    if not _fits(found["libcuda.so.1"], driver):
        listed = _listed(root)
        for name in names:
            if not _fits(found[name], driver):
                found[name] = _best(root, name, listed, driver) or found[name]
    return tuple((name, library) for name, library in found.items() if library)


def _library_folders(root: Path) -> Iterator[str]:
    machine = platform.machine()
    if root == Path("/"):
        yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    yield f"/usr/lib/{machine}-linux-gnu"
    yield f"/usr/lib/{machine}-linux-gnu/nvidia/current"
    yield from ("/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64")
    yield from ("/usr/lib/wsl/lib", "/run/opengl-driver/lib", "/usr/local/lib")


def _listed(root: Path) -> list[str]:
    """Return the folders with a libcuda in the loader's cache."""
    cache = root / "etc/ld.so.cache"
    if not cache.exists():
        return []
    try:
        done = process.run([LDCONFIG, "-C", cache, "-p"], timeout_s=LDCONFIG_S)
    except EngineError:
        return []
    text = done.stdout.decode(errors="replace")
    return re.findall(r"=> (/\S*)/libcuda\.so\.1$", text, re.MULTILINE)


def _best(root: Path, name: str, places: list[str], driver: str) -> str:
    """Return the first real path, or that of the driver's version if there is one."""
    there = [file for place in places if (file := _real(root, f"{place}/{name}"))]
    fitting = (file for file in there if _fits(file, driver))
    return next(fitting, there[0] if there else "")


def _fits(file: str, driver: str) -> bool:
    """Whether a file has the driver's version, or none in its name (as on WSL)."""
    version = re.search(r"\.so\.(\d+\.\d+[.\d]*)$", file)
    return bool(file) and (not driver or version is None or version[1] == driver)


def _real(root: Path, library: str) -> str:
    with suppress(OSError, ValueError):
        real = (root / library.lstrip("/")).resolve(strict=True)
        if real.is_file():
            return f"/{real.relative_to(root.resolve())}"
    return ""


FIELDS = (
    "index",
    "uuid",
    "driver_version",
    "mig.mode.current",
    "memory.total",
    "compute_cap",
    "pci.bus_id",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "name",
)
FORM = "--format=csv,noheader,nounits"
QUERY = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", FORM)
PROCESSES = (
    "nvidia-smi",
    "--query-compute-apps=gpu_uuid,pid,used_memory,process_name",
    FORM,
)

_PROCESS = re.compile(r"((?:GPU|MIG)-\S+), (\d+), ([^,]+), (.+)")
_PROBLEM = re.compile(r"fail|error|not a valid|no devices|unable|lost", re.IGNORECASE)
_GONE = re.compile(r"lost|unknown error|err!|requires reset", re.IGNORECASE)

SMI = "nvidia-smi"

SMI_S = 20.0


class SmiReport(Struct, frozen=True):
    """What nvidia-smi printed.

    ``buses`` are pairs of UUID and PCI address; ``sliced`` are the names of the GPUs in
    MIG mode, which ``gpus`` lacks. ``problem`` is its error message if it failed.
    """

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    states: tuple[GpuState, ...] = ()
    buses: tuple[tuple[str, str], ...] = ()
    sliced: tuple[str, ...] = ()
    problem: str = ""


Row = dict[str, str]


def parse(text: str, *, processes: bool = False) -> SmiReport:
    """Parse the output of QUERY, and of PROCESSES if ``processes``."""
    lines = text.splitlines()
    rows = [row for line in lines if (row := _row(line))]
    cards = {row["uuid"]: _gpu(row) for row in rows}
    migs = {row["uuid"] for row in rows if row["mig.mode.current"] == "Enabled"}
    gpus = [gpu for uuid, gpu in cards.items() if uuid not in migs]
    busy = _processes(lines) if processes else None
    errors = (line.strip() for line in lines if _PROBLEM.search(line))
    return SmiReport(
        driver=rows[0]["driver_version"] if rows else "",
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.index)),
        states=tuple(_state(row, busy) for row in rows),
        buses=tuple((row["uuid"], row["pci.bus_id"]) for row in rows),
        sliced=tuple(cards[uuid].shown for uuid in cards if uuid in migs),
        problem="" if rows else next(errors, ""),
    )


def _row(line: str) -> Row | None:
    values = [value.strip() for value in line.split(",", len(FIELDS) - 1)]
    row = dict(zip(FIELDS, values, strict=False))
    whole = len(values) == len(FIELDS) and row["index"].isdecimal()
    return row if whole and row["uuid"].startswith("GPU-") else None


def _gpu(row: Row) -> Gpu:
    memory = _number(row["memory.total"])
    return Gpu(
        uuid=row["uuid"],
        name=row["name"],
        index=int(row["index"]),
        memory_bytes=round(memory * MIB) if memory else 0,
        compute=row["compute_cap"] if _number(row["compute_cap"]) else "",
    )


def _processes(lines: list[str]) -> dict[str, tuple[GpuProcess, ...]]:
    found: dict[str, tuple[GpuProcess, ...]] = {}
    for match in filter(None, map(_PROCESS.fullmatch, lines)):
        uuid, pid, memory, name = match.groups()
        used = _number(memory)
        taken = None if used is None else round(used * MIB)
        one = GpuProcess(int(pid), name.rpartition("/")[2], taken)
        found[uuid] = (*found.get(uuid, ()), one)
    return found


def _state(row: Row, busy: dict[str, tuple[GpuProcess, ...]] | None) -> GpuState:
    gone = (value.strip("[]") for value in row.values() if _GONE.search(value))
    if trouble := next(gone, ""):
        return GpuState(row["uuid"], problem=f"it does not answer: {trouble}")
    return GpuState(
        uuid=row["uuid"],
        sm_clock_mhz=_whole(row["clocks.sm"]),
        sm_clock_most_mhz=_whole(row["clocks.max.sm"]),
        memory_clock_mhz=_whole(row["clocks.mem"]),
        temperature_c=_whole(row["temperature.gpu"]),
        power_w=_number(row["power.draw"]),
        processes=None if busy is None else busy.get(row["uuid"], ()),
    )


def _number(value: str) -> float | None:
    return float(value) if re.fullmatch(r"\d+(\.\d+)?", value) else None


def _whole(value: str) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def run_smi(root: Path) -> SmiReport:
    """Run nvidia-smi; ``problem`` says why it failed."""
    program = find_program(root, SMI)
    if not program:
        return SmiReport(problem=f"{SMI} is not found")
    output = b""
    for words in (QUERY, PROCESSES):
        try:
            argv = [under(root, program), *words[1:]]
            done = process.run(argv, timeout_s=SMI_S)
        except EngineError as error:
            return SmiReport(problem=str(error))
        output += done.stdout + done.stderr
    return parse(output.decode(errors="replace"), processes=True)
