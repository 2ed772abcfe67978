"""Compare names of kernels, with template arguments and parameters or without."""

from __future__ import annotations

import re
from functools import lru_cache

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}")
_RETURNED = re.compile(r"^(?:static )?void ")


def same(profiled: str, written: str) -> bool:
    """Whether a name that a profiler printed is that of a kernel in the file."""
    if profiled == written:
        return True
    plain, wanted = bare(profiled), bare(written)
    if "<" in written and _arguments(profiled) != _arguments(written):
        return False
    return plain == wanted or _ends_with(plain, wanted) or _ends_with(wanted, plain)


def key(name: str) -> str:
    """Return what names of one kernel have in common: its name in its namespace."""
    return bare(name).rpartition("::")[2]


@lru_cache(maxsize=4096)
def bare(name: str) -> str:
    """Return a function's name without its type, template arguments and parameters."""
    text = _RETURNED.sub("", _ANONYMOUS.sub("", name.strip()))
    kept, depth = [], 0
    for letter in text:
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth = max(depth - 1, 0)
        elif letter == "(" and depth == 0:
            break
        elif depth == 0:
            kept.append(letter)
    return "".join(kept).strip().removeprefix("::")


@lru_cache(maxsize=4096)
def _arguments(name: str) -> str:
    """Return a name up to its parameters, without spaces."""
    text, depth = _RETURNED.sub("", _ANONYMOUS.sub("", name.strip())), 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth <= 0:
            text = text[:at]
            break
    return re.sub(r"\s", "", text)


def _ends_with(long: str, short: str) -> bool:
    """Whether a name in a namespace ends with one that lacks it."""
    return long.endswith(f"::{short}")
