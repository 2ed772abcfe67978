"""What a command line says of the program that it measures: profilers, batch size.

Files of the build folder that profilers wrote are known by their suffixes. Such a file
belongs to the last command that starts a profiler of its kind; a command that names the
file takes precedence.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from runner.core import ProfileFile

_TOOL = re.compile(
    r"(?<![\w.-])(?:(?P<nvprof>nvprof)|(?P<nsys>nsys\s+(?:profile|launch|nvprof))"
    r"|(?P<ncu>ncu|nv-nsight-cu-cli)|(?P<compute_sanitizer>compute-sanitizer)"
    r"|(?P<cuda_memcheck>cuda-memcheck)|(?P<valgrind>valgrind))(?![\w./-])"
    r"(?!\s+(?:-i|--import)\b)"
)
_SCRIPT = re.compile(r"(?<![\w.-])(?:m[0-9][._][0-9]|final)\.py((?:\s+[^\s;|&()<>]+)*)")
_WORDS = re.compile(r"[^\s\"']+")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


_WRITERS = {
    ".nvprof": ("nvprof",),
    ".nvvp": ("nvprof",),
    ".prof": ("nvprof",),
    # The nvprof of rai's images writes ncu's reports as well.
    ".ncu-rep": ("ncu", "nvprof"),
    ".nsight-cuprof-report": ("ncu",),
    ".nsys-rep": ("nsys",),
    ".qdrep": ("nsys",),
    ".sqlite": ("nsys",),
}
"""Each suffix, and the profilers that write such files."""

_WORD = re.compile(r"[^\s\"'/=;|&()<>]+")

# nvprof appends the process id, and a number if a name is used more than once.
_NUMBERS = re.compile(r"(?:\.[0-9]+){1,2}$")


def tools(line: str) -> tuple[str, ...]:
    """Return the profilers and memory checkers that a line starts, in its order."""
    found = (str(match.lastgroup) for match in _TOOL.finditer(line))
    return tuple(dict.fromkeys(name.replace("_", "-") for name in found))


def batch_size(line: str) -> int | None:
    """Return how many images a line gives to the course's scripts.

    None if it names none, or several. The scripts take it as a whole number; one that
    follows an option may be that option's value.
    """
    found = {_count(match[1]) for match in _SCRIPT.finditer(line)}
    return found.pop() if len(found) == 1 else None


def _count(arguments: str) -> int | None:
    before = ""
    for word in _WORDS.findall(arguments):
        if _COUNT.fullmatch(word) and not before.startswith("-"):
            return int(word)
        before = word
    return None


def claimed(
    lines: Sequence[tuple[int, str]], files: Mapping[str, int]
) -> dict[int, tuple[ProfileFile, ...]]:
    """Return the profiles that each command wrote, by the command's number.

    ``files`` are the sizes of the build folder's files, by their paths in it.
    """
    commands = [(index, _started(line), _names(line)) for index, line in lines]
    found: dict[int, tuple[ProfileFile, ...]] = {}
    for path, size in files.items():
        name, suffix = _split(posixpath.basename(path))
        writers = _WRITERS.get(suffix, ()) if path.isprintable() else ()
        owners = [
            (name in names, place, index, tool)
            for place, (index, tools, names) in enumerate(commands)
            for tool in writers
            if tool in tools
        ]
        if owners:
            _, _, index, tool = max(owners)
            found[index] = (*found.get(index, ()), ProfileFile(tool, path, size))
    return found


def exporting(line: str) -> bool:
    """Whether a line starts a profiler, which may write a file."""
    return bool(_started(line))


def _started(line: str) -> frozenset[str]:
    return frozenset(tools(line))


def _names(line: str) -> frozenset[str]:
    """Return the words of a line as names of files, without a profile's suffix."""
    return frozenset(_split(word)[0] for word in _WORD.findall(line))


def _split(name: str) -> tuple[str, str]:
    """Return a file's name without a profile's suffix and numbers, and the suffix."""
    stem, suffix = posixpath.splitext(_NUMBERS.sub("", name))
    return (stem, suffix) if suffix in _WRITERS else (name, "")
