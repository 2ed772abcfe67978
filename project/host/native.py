"""Compile C++ to a cached shared library for this machine's processor."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from course.errors import CompilerError
from host import cache

COMPILERS = ("g++", "c++", "clang++")
OPTIONS = ("-std=c++17", "-O3", "-fPIC", "-pthread")
THIS_PROCESSOR = (("-march=native",), ("-mcpu=native",), ())
"""Options to try in turn: not every compiler and architecture accepts each."""

HEADER = b"#include <cstdlib>\n"  # defines the C and C++ libraries' macros too

_TEMPORARY = ExitStack()
"""The folders that libraries are built in, removed at exit."""
atexit.register(_TEMPORARY.close)


@dataclass(frozen=True)
class Library:
    """A shared library's name, sources and options."""

    name: str
    sources: tuple[Path, ...]
    includes: tuple[Path, ...] = ()  # folders of headers besides the sources' own
    unoptimised: tuple[Path, ...] = ()  # sources compiled with -O0, to compile fast

    @property
    def files(self) -> tuple[Path, ...]:
        """Return all sources."""
        return (*self.unoptimised, *self.sources)

    @property
    def folders(self) -> list[Path]:
        """Return the folders to search for headers."""
        own = dict.fromkeys(source.parent for source in self.sources)
        return [*own, *self.includes]


@dataclass(frozen=True)
class Compiler:
    """A compiler's command and its options for this processor."""

    command: tuple[str, ...]
    processor: tuple[str, ...]
    macros: bytes
    """Its predefined macros: versions, and features of the processor."""

    def build(self, library: Library, path: Path) -> None:
        """Compile all files in parallel and link them; raise CompilerError.

        The path is in a folder for this alone.
        """
        how = [*self.command, *OPTIONS, *self.processor]
        includes = [f"-I{folder}" for folder in library.folders]

        def run(argv: Sequence[str]) -> None:
            done = _run(argv)
            if done.returncode != 0:
                why = _diagnosis(argv[0], done)
                raise CompilerError(f"cannot build {library.name}: {why}")

        def compile(source: Path, made: Path) -> str:
            fast = ["-O0"] if source in library.unoptimised else []
            run([*how, *fast, *includes, "-c", str(source), "-o", str(made)])
            return str(made)

        objects = [path.with_name(f"{n}.o") for n in range(len(library.files))]
        with ThreadPoolExecutor() as pool:
            made = list(pool.map(compile, library.files, objects))
        run([*how, "-shared", *made, "-o", str(path)])
        if not path.is_file():
            raise CompilerError(
                f"cannot build {library.name}: {how[0]} exited 0 but wrote no file"
            )


def find(
    environment: Mapping[str, str] = os.environ,
    processors: Sequence[tuple[str, ...]] = THIS_PROCESSOR,
) -> Compiler:
    """Find a compiler: CXX, else the first of COMPILERS; raise CompilerError."""
    command = _command(environment)
    refusal = ""
    for processor in processors:
        argv = [*command, *OPTIONS, *processor, "-E", "-dM", "-x", "c++", "-"]
        done = _run(argv, HEADER)
        if done.returncode == 0:
            return Compiler(command, processor, done.stdout)
        refusal = _diagnosis(argv[0], done)
    raise CompilerError(f"cannot compile C++: {refusal}")


def build(library: Library, compiler: Compiler | None = None) -> Path:
    """Return a library's file, from the cache or compiled; raise CompilerError."""
    compiler = compiler or find()
    name = f"{key(library, compiler)}.so"
    kept = cache.folder("native")
    if kept and cache.read(kept / name) is not None:
        return kept / name
    try:
        folder = tempfile.TemporaryDirectory(prefix="rai-")
    except OSError as error:
        raise CompilerError(f"cannot build {library.name}: {error}") from None
    made = Path(_TEMPORARY.enter_context(folder), f"{library.name}.so")
    compiler.build(library, made)
    if kept:
        cache.keep(kept / name, made.read_bytes())
        if cache.read(kept / name) is not None:
            return kept / name
    return made


def key(library: Library, compiler: Compiler) -> str:
    """Return a library's cache key: its sources, options, compiler and processor."""
    how = [*compiler.command, *OPTIONS, *compiler.processor]
    how += [library.name, *map(str, library.includes)]
    how += map(str, library.unoptimised)
    code = cache.sources(library.files, library.folders)
    return cache.key([*map(os.fsencode, how), compiler.macros, *code])


def _command(environment: Mapping[str, str]) -> tuple[str, ...]:
    path = environment.get("PATH")
    try:
        named = shlex.split(environment.get("CXX", ""))
    except ValueError as error:
        raise CompilerError(
            f"CXX is not a valid command: {error}; unset it or correct it"
        ) from None
    if named:
        if found := shutil.which(named[0], path=path):
            return (found, *named[1:])
        raise CompilerError(f"CXX: {named[0]} not found; unset it or correct it")
    for name in COMPILERS:
        if found := shutil.which(name, path=path):
            return (found,)
    raise CompilerError(
        f"no C++ compiler found ({', '.join(COMPILERS)}); install one, or set CXX"
    )


def _run(argv: Sequence[str], text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, input=text, capture_output=True, check=False)
    except OSError as error:
        raise CompilerError(f"cannot run {argv[0]}: {error.strerror}") from None


def _diagnosis(program: str, done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line of an error, or else the exit status."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    wrong = [line for line in lines if "error" in line] or lines
    if not wrong:
        return f"{program} exited with status {done.returncode}"
    return f"{program}: {wrong[0]}"
