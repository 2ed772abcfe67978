"""Find a misspelled program in a command line, where it is plain to see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PROGRAMS = (
    *("bash", "cmake", "compute-sanitizer", "cuda-gdb", "cuda-memcheck", "cuobjdump"),
    *("echo", "grep", "make", "mkdir", "ncu", "ninja", "nsys", "nvcc", "nvdisasm"),
    *("nvidia-smi", "nvprof", "pip3", "python", "python2", "python3"),
    *("pythonw", "time", "timeout", "unzip", "valgrind", "wget"),
)
"""Programs whose names are often typed."""

SHORTEST = 4
"""Shorter names are too much like those of other programs: cat, act."""

LONG = 6
"""From this length on one wrong letter is surely a mistake, and not another program."""

TIMERS = ("time", "/usr/bin/time")


def meant(words: Sequence[str]) -> tuple[str, str] | None:
    """Return what was typed and the program that was meant; None if nothing is wrong.

    ``words`` are those of a command line. A path is never a mistake.
    """
    if words[:1] and words[0] in TIMERS and words[1:]:
        words = words[1:]
    first, second = [*words, "", ""][:2]
    if not first.isascii() or "/" in first or first in PROGRAMS:
        return None
    if second.startswith("-") and first + second in PROGRAMS:
        return f"{first} {second}", first + second
    return next(((first, name) for name in PROGRAMS if _mistyped(first, name)), None)


def _mistyped(typed: str, name: str) -> bool:
    """Whether two letters are swapped, or one of a long name is wrong or missing.

    Versions are no mistakes, and neither is another first letter: cython, ipython.
    """
    if len(name) < SHORTEST or typed.rstrip("0123456789.-") == name.rstrip(
        "0123456789.-"
    ):
        return False
    if typed in _swapped(name):
        return True
    return len(name) >= LONG and typed[:1] == name[:1] and _one_off(typed, name)


def _swapped(name: str) -> Iterator[str]:
    for at in range(len(name) - 1):
        if name[at] != name[at + 1]:
            yield name[:at] + name[at + 1] + name[at] + name[at + 2 :]


def _one_off(typed: str, name: str) -> bool:
    """Whether one letter more, less or another makes one name of the other."""
    if abs(len(typed) - len(name)) > 1:
        return False
    short, long = sorted((typed, name), key=len)
    pairs = enumerate(zip(short, long, strict=False))
    at = next((n for n, (one, other) in pairs if one != other), len(short))
    same_length = len(short) == len(long)
    odd = long[at : at + 1] + (short[at : at + 1] if same_length else "")
    rest = short[at + 1 :] if same_length else short[at:]
    return odd.isalpha() and long[at + 1 :] == rest
