"""The profilers, and how each is told which file to write."""

from __future__ import annotations

from msgspec import Struct

from runner.commandline.shell import names

DIGITS = "\1"
"""Stands in a name for a number that only the profiler knows."""


class Tool(Struct, frozen=True):
    """A profiler: how it is told where to write, and what becomes of the name.

    ``flags`` are its options that take no value. ``endings`` is what it adds to the
    name, as a regular expression; ``otherwise`` the name where none is given.
    """

    name: str
    output: frozenset[str]
    flags: frozenset[str]
    endings: str
    verb: str = ""
    otherwise: str = ""


NVPROF = Tool(
    "nvprof",
    names("-o --export-profile --output-profile"),
    names(
        "-f --force-overwrite -s --print-summary --print-summary-per-gpu --csv -q"
        " --quiet --print-gpu-summary --print-api-summary --print-gpu-trace"
        " --print-api-trace --profile-child-processes --profile-all-processes"
        " --analysis-metrics --query-metrics --query-events -V --version -h --help"
        " --print-dependency-analysis"
    ),
    # Of several processes that have one name each adds its own number.
    r"(?:\.[0-9]+){0,2}(?:\.ncu-rep)?",
)
NSYS = Tool(
    "nsys",
    names("-o --output"),
    names("-h --help"),
    r"(?:\.nsys-rep|\.qdrep|\.sqlite)",
    verb="profile",
    otherwise=f"report{DIGITS}",
)
NCU = Tool(
    "ncu",
    names("-o --export"),
    names(
        "-f --force-overwrite --csv --nvtx --call-stack --details-all --verbose"
        " --quiet --print-fp --disable-extra-suffixes --query-metrics --list-sets"
        " --list-sections --list-rules --list-chips --list-metrics -v --version -h"
        " --help --print-kernel-base --check-exit-code"
    ),
    r"(?:\.ncu-rep|\.nsight-cuprof-report)",
)
TOOLS = {"nvprof": NVPROF, "nsys": NSYS, "ncu": NCU, "nv-nsight-cu-cli": NCU}
"""Each profiler by its program's name."""


def output(tool: Tool, words: list[str]) -> str | None:
    """Give the name that the tool's options tell; None where it writes no file."""
    left = iter(words)
    if tool.verb and next(left, None) != tool.verb:
        return None
    for word in left:
        if word == "--" or not word.startswith("-"):
            break
        option, equals, value = word.partition("=")
        if option in tool.output:
            return value if equals else next(left, None)
        if not word.startswith("--"):
            letter, rest = _letters(tool, word)
            if f"-{letter}" in tool.output:
                return rest or next(left, None)
            if letter and not rest:
                next(left, None)
        elif not equals and option not in tool.flags:
            next(left, None)
    return tool.otherwise or None


def _letters(tool: Tool, word: str) -> tuple[str, str]:
    """Give the first of the letters `-fsoNAME` with a value, and what is behind."""
    rest = word[1:]
    while rest and f"-{rest[0]}" in tool.flags:
        rest = rest[1:]
    return rest[:1], rest[1:].removeprefix("=")
