"""Compile CUDA sources to cached machine code (cubins) for one architecture.

The compiler is nvcc if it is found, else NVRTC through the package cuda-core.
Neither needs a GPU or a driver.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from io import StringIO
from pathlib import Path
from threading import Lock

from course.errors import NoGpuError, ProjectError
from course.shapes import ConvShape
from course.variants import Variant
from host import cache

FOLDER = Path(__file__).resolve().parents[1] / "cuda"
STANDARD = "c++17"
INFINITY = ("INFINITY", "__int_as_float(0x7f800000)")
"""A macro of math.h, which nvcc includes and NVRTC does not have."""
NVRTC_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_IMPORT = Lock()  # importing cuda.core from two threads at once fails

Defines = tuple[tuple[str, int], ...]


def defines(sizes: Mapping[str, int]) -> Defines:
    """Make sizes hashable, so that they can be part of a key."""
    return tuple(sizes.items())


@dataclass(frozen=True)
class Unit:
    """A file of kernels, and the macros that it is compiled with."""

    name: str
    defines: Defines = ()
    folder: Path = FOLDER
    own: bool = False  # uses features of one architecture only, such as sm_90a

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return self.folder / f"{self.name}.cu"

    @property
    def options(self) -> list[str]:
        """Return the macros as options of the compiler."""
        return [f"-D{name}={value}" for name, value in self.defines]

    def target(self, architecture: str) -> str:
        """Return the target to compile for, to run on an architecture."""
        return f"{architecture}a" if self.own else architecture

    def sources(self) -> Iterator[bytes]:
        """Yield the text of the file and of our headers that it includes."""
        return cache.sources([self.path], [self.folder])

    def files(self) -> Iterator[Path]:
        """Yield the file and our headers that it includes."""
        return cache.included([self.path], [self.folder])


def unit_of(variant: Variant, shape: ConvShape) -> Unit:
    """Return a variant's file with its macros for a shape."""
    own = all(target.endswith("a") for target in variant.targets)
    return Unit(below(variant.stem), defines(variant.defines(shape)), own=own)


@functools.cache
def below(stem: str) -> str:
    """Return the name of the unit of ``<stem>.cu``, in cuda/ or a folder there."""
    path = next(FOLDER.rglob(f"{stem}.cu"), FOLDER / stem)
    return path.relative_to(FOLDER).with_suffix("").as_posix()


@dataclass(frozen=True)
class Compiled:
    """Machine code, and the assembler's log."""

    cubin: bytes
    log: str


class Nvcc:
    """The compiler of the CUDA toolkit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        output = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False
        ).stdout
        found = re.search(r"\bV(\d+(?:\.\d+)+)", output)
        if found is None:
            raise NoGpuError(f"{path}: --version prints no version; reinstall it")
        self.version = found[1]

    def compile(self, unit: Unit, architecture: str) -> Compiled:
        """Run nvcc in a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="rai-") as folder:
            cubin = Path(folder) / "out.cubin"
            code = architecture.removeprefix("sm_")
            argv = [str(self.path), "-cubin", "-Xptxas=-v"]
            argv += [f"-gencode=arch=compute_{code},code=sm_{code}"]
            argv += [f"-std={STANDARD}", f"-I{unit.folder}", *unit.options]
            argv += ["-o", str(cubin), str(unit.path)]
            done = subprocess.run(
                argv, capture_output=True, text=True, check=False, cwd=folder
            )
            if done.returncode != 0:
                raise ProjectError(f"{unit.path}: {architecture}: {done.stderr}")
            return Compiled(cubin.read_bytes(), done.stderr)


class Nvrtc:
    """NVIDIA's runtime compilation library, used where there is no nvcc."""

    def __init__(self, version: str) -> None:
        self.version = version

    def compile(self, unit: Unit, architecture: str) -> Compiled:
        """Compile in this process."""
        with _IMPORT:
            from cuda.core import Program, ProgramOptions
            from cuda.core._utils.cuda_utils import NVRTCError  # has no public name

        options = ProgramOptions(
            name=str(unit.path),
            arch=architecture,
            std=STANDARD,
            include_path=[str(unit.folder), *map(str, _headers())],
            device_as_default_execution_space=True,  # as constexpr is to nvcc
            define_macro=[INFINITY, *((name, str(n)) for name, n in unit.defines)],
            ptxas_options="-v",
        )
        log = StringIO()
        program = Program(unit.path.read_text(encoding="utf-8"), "c++", options)
        try:
            code = program.compile("cubin", logs=log)
        except NVRTCError as error:
            raise ProjectError(f"{unit.path}: {architecture}: {error}") from None
        return Compiled(bytes(code.code), log.getvalue())


Toolkit = Nvcc | Nvrtc


def find(nvccs: Iterable[Path] | None = None) -> Toolkit:
    """Return nvcc, else NVRTC; raise NoGpuError."""
    for path in _nvccs() if nvccs is None else nvccs:
        if path.is_file() and os.access(path, os.X_OK):
            return Nvcc(path)
    if (version := _nvrtc_version()) is not None:
        return Nvrtc(version)
    raise NoGpuError(
        "cannot compile kernels: found neither nvcc (in CUDA_HOME, PATH, "
        "/usr/local/cuda) nor NVRTC (packages cuda-core, nvidia-cuda-nvrtc)"
    )


def _nvccs() -> Iterator[Path]:
    yield from (root / "bin" / "nvcc" for root in _named())
    if on_path := shutil.which("nvcc"):
        yield Path(on_path)
    yield from (root / "bin" / "nvcc" for root in _roots())


def _named() -> Iterator[Path]:
    """Yield the toolkits that environment variables name."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            yield Path(home)


def _roots() -> Iterator[Path]:
    """Yield the folders that may contain a toolkit, most likely first."""
    yield from _named()
    yield Path("/usr/local/cuda")
    for folder in sys.path:
        yield from sorted(Path(folder, "nvidia").glob("cu*"), reverse=True)


def _headers() -> list[Path]:
    """Return the folder of CUDA's headers, which NVRTC does not bring, if found."""
    folders = (root / "include" for root in _roots())
    return [folder for folder in folders if (folder / "cuda_fp16.h").is_file()][:1]


def _nvrtc_version() -> str | None:
    """Return NVRTC's version without loading it, which is slow."""
    try:
        metadata.version("cuda-core")
    except metadata.PackageNotFoundError:
        return None
    for package in NVRTC_PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return None


def cubins(
    units: Sequence[Unit], architecture: str, driver: tuple[int, int]
) -> list[bytes]:
    """Return files' machine code for a GPU, cached or compiled.

    Raises NoGpuError where the driver is too old for the compiler.
    """
    toolkit = find()
    if why := too_old(driver, toolkit.version):
        raise NoGpuError(why)
    with ThreadPoolExecutor() as pool:
        return list(
            pool.map(lambda u: cached(u, u.target(architecture), toolkit), units)
        )


def too_old(driver: tuple[int, int], toolkit: str) -> str | None:
    """Return why a driver cannot run a toolkit's machine code; None if it can.

    It runs that of all toolkits of its own major version and of older ones.
    """
    major, minor = driver
    if int(toolkit.split(".")[0]) <= major:
        return None
    return (
        f"the GPU's driver supports CUDA {major}.{minor}, but the kernels are compiled "
        f"with CUDA {toolkit}; update the driver, or install CUDA {major}"
    )


def cached(unit: Unit, architecture: str, toolkit: Toolkit) -> bytes:
    """Return a file's machine code from the cache, or compile and cache it."""
    kept = cache.folder("cubins")
    if kept is None:
        return toolkit.compile(unit, architecture).cubin
    path = kept / f"{key(unit, architecture, toolkit)}.cubin"
    if (cubin := cache.read(path)) is not None:
        return cubin
    cubin = toolkit.compile(unit, architecture).cubin
    cache.keep(path, cubin)
    return cubin


def key(unit: Unit, architecture: str, toolkit: Toolkit) -> str:
    """Return the cache key of a file: its sources, macros, target and compiler."""
    kind = type(toolkit).__name__
    how = [kind, toolkit.version, architecture, STANDARD, unit.name, *unit.options]
    return cache.key([*(text.encode() for text in how), *unit.sources()])
