"""`--kernels`: which kernels are shown, stored and measured.

A filter is a regular expression for the kernel's name, or nvprof's path
`[context]:[stream]:[kernel]:[invocation]`, each part empty for any.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nvprof import names

_NUMERIC = r"[\d\[\]\-|^$.*+?()\\]*"
_PATH = re.compile(rf"({_NUMERIC}):({_NUMERIC}):(.*)\Z")
_LAST = re.compile(rf"(.*[^:]|):({_NUMERIC})\Z")


class KernelFilter(NamedTuple):
    """One `--kernels`; an empty part takes all."""

    context: str
    stream: str
    kernel: str
    invocation: str


def parse(text: str) -> KernelFilter:
    """Read a filter; `re.error` is raised for a regular expression that is none.

    The first two parts must be numbers or patterns of such, for only then can
    `ns::kernel` be told from a path.
    """
    path = _PATH.match(text)
    if path is None:
        parts = KernelFilter("", "", text, "")
    else:
        last = _LAST.match(path[3])
        kernel, invocation = last.groups() if last else (path[3], "")
        parts = KernelFilter(path[1], path[2], kernel, invocation)
    for part in parts:
        re.compile(part)
    return parts


def _number(pattern: str, value: int) -> bool:
    if not pattern:
        return True
    if pattern.isdigit():
        return int(pattern) == value
    return re.fullmatch(pattern, str(value)) is not None


def named(pattern: str, name: str) -> bool:
    """Tell whether a pattern finds a kernel: in its own name, or with `::`, in all."""
    if not pattern or pattern == name:
        return True
    whole = "::" in pattern or "<" in pattern
    return re.search(pattern, name if whole else names.function(name)) is not None


def takes(
    filters: tuple[KernelFilter, ...],
    name: str,
    context: int,
    stream: int,
    invocation: int,
) -> bool:
    """Tell whether any filter takes this launch; no filter takes all."""
    return not filters or any(
        _number(each.context, context)
        and _number(each.stream, stream)
        and _number(each.invocation, invocation)
        and named(each.kernel, name)
        for each in filters
    )
