"""What a command line says of the program that it measures: tools, batch size."""

from __future__ import annotations

import re

_TOOL = re.compile(
    r"(?<![\w.-])(?:(?P<nvprof>nvprof)|(?P<nsys>nsys\s+(?:profile|launch|nvprof))"
    r"|(?P<ncu>ncu|nv-nsight-cu-cli)|(?P<compute_sanitizer>compute-sanitizer)"
    r"|(?P<cuda_memcheck>cuda-memcheck)|(?P<valgrind>valgrind))(?![\w./-])"
    r"(?!\s+(?:-i|--import)\b)"
)
_SCRIPT = re.compile(r"(?<![\w.-])(?:m[0-9][._][0-9]|final)\.py((?:\s+[^\s;|&()<>]+)*)")
_WORDS = re.compile(r"[^\s\"']+")
_COUNT = re.compile(r"[1-9][0-9]{0,8}")


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
