"""C++ sources to a shared library for this machine's processor, kept in a cache."""

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

import cache
from errors import CompilerError

COMPILERS = ("g++", "c++", "clang++")
OPTIONS = ("-std=c++17", "-O3", "-fPIC", "-pthread")
THIS_PROCESSOR = (("-march=native",), ("-mcpu=native",), ())
"""The ways to say it: what one compiler or architecture refuses another one takes."""

HEADER = b"#include <cstdlib>\n"  # it brings the macros of the C and C++ libraries too

_LENT = ExitStack()
"""The folders of libraries that could not be kept: they live as long as we do."""
atexit.register(_LENT.close)


@dataclass(frozen=True)
class Library:
    """A shared library's name, and what it is made from."""

    name: str
    sources: tuple[Path, ...]
    includes: tuple[Path, ...] = ()  # folders of headers beside the sources' own
    options: tuple[str, ...] = ()
    glue: tuple[Path, ...] = ()  # sources that need not be fast, but built fast

    @property
    def files(self) -> tuple[Path, ...]:
        """Name all that is compiled."""
        return (*self.glue, *self.sources)

    @property
    def folders(self) -> list[Path]:
        """Name the folders in which headers are looked for."""
        own = dict.fromkeys(source.parent for source in self.sources)
        return [*own, *self.includes]


@dataclass(frozen=True)
class Compiler:
    """A compiler as it is called, and the options for a processor that it takes."""

    command: tuple[str, ...]
    processor: tuple[str, ...]
    macros: bytes
    """Its version, the libraries' versions, and all that the processor can do."""

    def build(self, library: Library, path: Path) -> None:
        """Compile all files at once and link them; a mistake is the compiler's word."""
        how = [*self.command, *OPTIONS, *self.processor]
        includes = [f"-I{folder}" for folder in library.folders]

        def run(argv: Sequence[str]) -> None:
            done = _run([*argv, *library.options])
            if done.returncode != 0:
                why = _words(argv[0], done)
                raise CompilerError(f"{library.name} is not built: {why}")

        def compile(source: Path, made: Path) -> str:
            fast = ["-O0"] if source in library.glue else []
            run([*how, *fast, *includes, "-c", str(source), "-o", str(made)])
            return str(made)

        with _place(library) as folder:
            objects = [Path(folder, f"{n}.o") for n in range(len(library.files))]
            with ThreadPoolExecutor() as pool:
                made = list(pool.map(compile, library.files, objects))
            run([*how, "-shared", *made, "-o", str(path)])
        if not path.is_file():
            raise CompilerError(
                f"{library.name} is not built: {how[0]} ended well and wrote no file"
            )


def find(
    environment: Mapping[str, str] = os.environ,
    processors: Sequence[tuple[str, ...]] = THIS_PROCESSOR,
) -> Compiler:
    """Find a compiler: what CXX says, or else the first that there is."""
    command = _command(environment)
    refusal = ""
    for processor in processors:
        argv = [*command, *OPTIONS, *processor, "-E", "-dM", "-x", "c++", "-"]
        done = _run(argv, HEADER)
        if done.returncode == 0:
            return Compiler(command, processor, done.stdout)
        refusal = _words(argv[0], done)
    raise CompilerError(f"no C++ can be compiled: {refusal}")


def build(library: Library, compiler: Compiler | None = None) -> Path:
    """Take a library from the cache, or compile it and keep it; name its file."""
    compiler = compiler or find()
    name = f"{key(library, compiler)}.so"
    kept = cache.folder("native")
    if kept and cache.read(kept / name) is not None:
        return kept / name
    with ExitStack() as stack:
        folder = stack.enter_context(_place(library))
        made = Path(folder, f"{library.name}.so")
        compiler.build(library, made)
        if kept:
            cache.keep(kept / name, made.read_bytes())
            if cache.read(kept / name) is not None:
                return kept / name
        _LENT.push(stack.pop_all())
        return made


def _place(library: Library) -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="rai-")
    except OSError as error:
        raise CompilerError(f"{library.name} is not built: {error}") from None


def key(library: Library, compiler: Compiler) -> str:
    """Name a library by all that it is made from, the processor's abilities too."""
    how = [*compiler.command, *OPTIONS, *compiler.processor]
    how += [library.name, *library.options, *map(str, library.includes)]
    how += map(str, library.glue)
    code = cache.sources(library.files, library.folders)
    return cache.key([*map(os.fsencode, how), compiler.macros, *code])


def _command(environment: Mapping[str, str]) -> tuple[str, ...]:
    path = environment.get("PATH")
    try:
        named = shlex.split(environment.get("CXX", ""))
    except ValueError as error:
        raise CompilerError(
            f"CXX is no command: {error}; unset it or correct it"
        ) from None
    if named:
        if found := shutil.which(named[0], path=path):
            return (found, *named[1:])
        raise CompilerError(
            f"CXX names {named[0]}, which is no program here; unset it or correct it"
        )
    for name in COMPILERS:
        if found := shutil.which(name, path=path):
            return (found,)
    raise CompilerError(
        f"there is no C++ compiler here ({', '.join(COMPILERS)}); install one, "
        "or name it in CXX"
    )


def _run(argv: Sequence[str], text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, input=text, capture_output=True, check=False)
    except OSError as error:
        raise CompilerError(f"{argv[0]} does not start: {error.strerror}") from None


def _words(program: str, done: subprocess.CompletedProcess[bytes]) -> str:
    """Give the line that says what is wrong, or else how the program ended."""
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines()]
    wrong = [line for line in lines if "error" in line] or lines
    if not wrong:
        return f"{program} ended with status {done.returncode}"
    return f"{program} says: {wrong[0]}"
