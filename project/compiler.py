"""CUDA sources to machine code for one architecture, kept in a cache.

The compiler is nvcc where there is one, else NVRTC through the package cuda-core.
Neither needs a GPU or a driver.
"""

from __future__ import annotations

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
from typing import Protocol

import cache
from errors import NoGpuError, ProjectError
from shapes import ConvShape
from variants import Variant

FOLDER = Path(__file__).resolve().parent / "cuda"
STANDARD = "c++17"
NVRTC_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")
_IMPORT = Lock()  # cuda.core comes half loaded to a second thread that imports it

Defines = tuple[tuple[str, int], ...]


def defines(sizes: Mapping[str, int]) -> Defines:
    """Fix sizes, so that they can name what is compiled with them."""
    return tuple(sizes.items())


@dataclass(frozen=True)
class Unit:
    """A file of kernels, and the sizes that it is compiled with."""

    name: str
    defines: Defines = ()
    folder: Path = FOLDER
    own: bool = False  # it wants what only one architecture has, such as sm_90a

    @property
    def path(self) -> Path:
        """Name the file."""
        return self.folder / f"{self.name}.cu"

    @property
    def options(self) -> list[str]:
        """Say the sizes as a compiler wants them."""
        return [f"-D{name}={value}" for name, value in self.defines]

    def target(self, architecture: str) -> str:
        """Name what to compile it for, to run on a GPU."""
        return f"{architecture}a" if self.own else architecture

    def sources(self) -> Iterator[bytes]:
        """Give the file, and each header of ours that it includes."""
        return cache.sources([self.path], [self.folder])


def unit_of(variant: Variant, shape: ConvShape) -> Unit:
    """Name the file of a convolution with the sizes that it wants of a shape."""
    own = all(target.endswith("a") for target in variant.targets)
    return Unit(variant.stem, defines(variant.defines(shape)), own=own)


@dataclass(frozen=True)
class Compiled:
    """Machine code, and what the assembler said of it."""

    cubin: bytes
    log: str


class Toolkit(Protocol):
    """A compiler of CUDA."""

    version: str  # such as 13.0.88

    def compile(self, unit: Unit, architecture: str) -> Compiled:
        """Compile a file; a mistake in it is an error with the compiler's words."""


class Nvcc:
    """The compiler of a whole toolkit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False
        ).stdout
        found = re.search(r"\bV(\d+(?:\.\d+)+)", said)
        if found is None:
            raise NoGpuError(f"{path}: does not say its version; reinstall it")
        self.version = found[1]

    def compile(self, unit: Unit, architecture: str) -> Compiled:
        """Run nvcc in a folder of its own."""
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
    """The compiler that is a library, for where no nvcc can be had."""

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
            define_macro=[(name, str(n)) for name, n in unit.defines] or None,
            ptxas_options="-v",
        )
        said = StringIO()
        program = Program(unit.path.read_text(encoding="utf-8"), "c++", options)
        try:
            code = program.compile("cubin", logs=said)
        except NVRTCError as error:
            raise ProjectError(f"{unit.path}: {architecture}: {error}") from None
        return Compiled(bytes(code.code), said.getvalue())


def find(nvccs: Iterable[Path] | None = None) -> Toolkit:
    """Find a compiler, nvcc before NVRTC."""
    for path in _nvccs() if nvccs is None else nvccs:
        if path.is_file() and os.access(path, os.X_OK):
            return Nvcc(path)
    if (version := _nvrtc_version()) is not None:
        return Nvrtc(version)
    raise NoGpuError(
        "no kernel can be compiled: there is no nvcc (CUDA_HOME, PATH, "
        "/usr/local/cuda), and no NVRTC (packages cuda-core, nvidia-cuda-nvrtc)"
    )


def _nvccs() -> Iterator[Path]:
    yield from (root / "bin" / "nvcc" for root in _named())
    if on_path := shutil.which("nvcc"):
        yield Path(on_path)
    yield from (root / "bin" / "nvcc" for root in _roots())


def _named() -> Iterator[Path]:
    """Name the toolkits that the environment names."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            yield Path(home)


def _roots() -> Iterator[Path]:
    """Name the folders that may be a toolkit, or a part of one, the likeliest first."""
    yield from _named()
    yield Path("/usr/local/cuda")
    for folder in sys.path:
        yield from sorted(Path(folder, "nvidia").glob("cu*"), reverse=True)


def _headers() -> list[Path]:
    """Find CUDA's own headers, such as that of half precision, for NVRTC."""
    folders = (root / "include" for root in _roots())
    return [folder for folder in folders if (folder / "cuda_fp16.h").is_file()][:1]


def _nvrtc_version() -> str | None:
    """Read NVRTC's version without loading it, which takes longer than all else."""
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
    """Compile files for a GPU and its driver, or take them from the cache."""
    toolkit = find()
    if why := too_old(driver, toolkit.version):
        raise NoGpuError(why)
    with ThreadPoolExecutor() as pool:
        return list(
            pool.map(lambda u: cached(u, u.target(architecture), toolkit), units)
        )


def too_old(driver: tuple[int, int], toolkit: str) -> str | None:
    """Say so where a driver does not run what a toolkit compiles.

    It runs machine code of every toolkit of its own major version and of older ones.
    """
    major, minor = driver
    if int(toolkit.split(".")[0]) <= major:
        return None
    return (
        f"the GPU's driver serves CUDA {major}.{minor}, and CUDA {toolkit} compiles "
        f"the kernels here; update the driver, or use an image of CUDA {major}"
    )


def cached(unit: Unit, architecture: str, toolkit: Toolkit) -> bytes:
    """Take a file's machine code from the cache, or compile it and keep it."""
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
    """Name the machine code by all that it is made from."""
    kind = type(toolkit).__name__
    how = [kind, toolkit.version, architecture, STANDARD, unit.name, *unit.options]
    return cache.key([*(text.encode() for text in how), *unit.sources()])
