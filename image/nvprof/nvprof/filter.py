"""Filters of `--kernels`, which select the kernels to show, store and measure.

A filter is a regular expression for the kernel's name, or nvprof's
`[context]:[stream]:[kernel]:[invocation]`, in which an empty part matches all.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nvprof import names

_NUMERIC = r"[\d\[\]\-|^$.*+?()\\]*"
_PATH = re.compile(rf"({_NUMERIC}):({_NUMERIC}):(.*)\Z")
_LAST = re.compile(rf"(.*[^:]|):({_NUMERIC})\Z")


class KernelFilter(NamedTuple):
    """A filter; an empty part matches all."""

    context: str
    stream: str
    kernel: str
    invocation: str


def parse(text: str) -> KernelFilter:
    """Parse a filter; raise `re.error` for an invalid regular expression.

    The first two parts must be numbers or patterns of numbers, so that `ns::kernel`
    is not split.
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
    """Return whether a pattern matches a kernel's name; with `::`, its full name."""
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
    """Return whether any filter matches a launch; without filters, all match."""
    return not filters or any(
        _number(each.context, context)
        and _number(each.stream, stream)
        and _number(each.invocation, invocation)
        and named(each.kernel, name)
        for each in filters
    )
