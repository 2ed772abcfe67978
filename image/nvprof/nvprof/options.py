"""Parse nvprof's command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from nvprof import filter as kernel_filter
from nvprof.manual import LONG, SHORT, Option


class OptionError(Exception):
    """The command line is invalid."""


@dataclass(frozen=True)
class Options:
    """The parsed command line."""

    application: tuple[str, ...] = ()
    output: str | None = None
    force: bool = False
    imported: str | None = None
    export_trace: str | None = None
    log_file: str | None = None
    csv: bool = False
    unit: str = "auto"
    summary: bool = False
    per_gpu: bool = False
    gpu_summary: bool = False
    api_summary: bool = False
    gpu_trace: bool = False
    api_trace: bool = False
    sections: frozenset[str] = frozenset({"gpu", "api"})
    api_level: str = "all"
    children: bool = False
    from_start: bool = True
    kernels: tuple[kernel_filter.KernelFilter, ...] = ()
    devices: frozenset[int] | None = None
    metrics: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    analysis: bool = False
    query: bool = False
    demangle: bool = True
    timeout: float | None = None
    quiet: bool = False
    version: bool = False
    help: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def traces(self) -> bool:
        """Return whether to print a trace."""
        return self.gpu_trace or self.api_trace

    @property
    def records(self) -> bool:
        """Return whether to record every activity, not only totals."""
        return bool(self.output or self.export_trace or self.traces or self.kernels)

    @property
    def counts(self) -> bool:
        """Return whether to measure hardware counters."""
        return bool(self.metrics or self.events or self.analysis)

    @property
    def tables(self) -> frozenset[str]:
        """Return the tables of the summary to print, of `gpu` and `api`."""
        chosen = {"gpu"} if self.gpu_summary else set()
        chosen |= {"api"} if self.api_summary else set()
        if not chosen:
            quiet = (self.output or self.traces) and not self.summary
            chosen = set() if quiet and not self.per_gpu else {"gpu", "api"}
        shown = self.sections - ({"api"} if self.api_level == "none" else set())
        return frozenset(chosen & shown)


def _devices(text: str) -> frozenset[int] | None:
    return None if text == "all" else frozenset(int(each) for each in text.split(","))


def _sections(text: str) -> frozenset[str]:
    parts = frozenset(text.split(","))
    if not parts <= {"gpu", "api"}:
        raise ValueError
    return parts


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError
    return seconds


FLAGS: dict[str, str] = {
    "force-overwrite": "force",
    "csv": "csv",
    "print-summary": "summary",
    "print-summary-per-gpu": "per_gpu",
    "print-gpu-summary": "gpu_summary",
    "print-api-summary": "api_summary",
    "print-gpu-trace": "gpu_trace",
    "print-api-trace": "api_trace",
    "profile-child-processes": "children",
    "analysis-metrics": "analysis",
    "query-metrics": "query",
    "query-events": "query",
    "quiet": "quiet",
    "version": "version",
    "help": "help",
}
"""Options without a value, and the field that each sets."""

VALUES: dict[str, tuple[str, Callable[[str], object]]] = {
    "export-profile": ("output", str),
    "output-profile": ("output", str),
    "import-profile": ("imported", str),
    "export-trace": ("export_trace", str),
    "log-file": ("log_file", str),
    "normalized-time-unit": ("unit", str),
    "profile-api-trace": ("api_level", str),
    "profile-from-start": ("from_start", "on".__eq__),
    "demangling": ("demangle", "on".__eq__),
    "trace": ("sections", _sections),
    "devices": ("devices", _devices),
    "timeout": ("timeout", _seconds),
}
"""Options with a value, the field that each sets, and the value's parser."""

LISTS: dict[str, str] = {"metrics": "metrics", "events": "events"}
"""Repeatable options with comma-separated names."""


def parse(words: Sequence[str], read: Callable[[str], str] | None = None) -> Options:
    """Parse a command line; `read` returns the text of an `--options` file.

    Raises OptionError.
    """
    options = Options()
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return replace(options, application=tuple(left))
        if not word.startswith("-") or word == "-":
            return replace(options, application=(word, *left))
        for option, value in _taken(word, left):
            if option.name == "options":
                left[:0] = _words(str(value), read)
            else:
                options = _with(options, option, value)
    return options


def _taken(word: str, left: list[str]) -> list[tuple[Option, str | None]]:
    """Parse one word, `--name`, `--name=value` or `-fo`, and take its value."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        option = LONG.get(name)
        if option is None:
            raise OptionError(_unknown(f"--{name}"))
        return [(option, _value(option, word, value if equals else None, left))]
    taken: list[tuple[Option, str | None]] = []
    letters = word[1:]
    while letters:
        option = SHORT.get(letters[0])
        if option is None:
            raise OptionError(_unknown(word))
        rest, letters = letters[1:], letters[1:]
        if option.takes:
            taken.append((option, _value(option, word, rest.lstrip("=") or None, left)))
            break
        taken.append((option, None))
    return taken


def _value(option: Option, word: str, given: str | None, left: list[str]) -> str | None:
    if not option.takes:
        if given is not None:
            raise OptionError(f"option --{option.name} does not take a value: {word}")
        return None
    if given is None:
        if not left:
            raise OptionError(f"option {word} needs a value: {option.takes}")
        given = left.pop(0)
    if option.allowed and given not in option.allowed:
        allowed = ", ".join(option.allowed)
        raise OptionError(f"option {word} takes one of {allowed}; got {given!r}")
    return given


def _unknown(word: str) -> str:
    close = get_close_matches(word.lstrip("-"), LONG, 1, 0.75)
    meant = f"; did you mean --{close[0]}?" if close else ""
    return f"unrecognized option {word}{meant}"


def _words(path: str, read: Callable[[str], str] | None) -> list[str]:
    if read is None:
        raise OptionError("option --options is not allowed here")
    try:
        return shlex.split(read(path), comments=True)
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot read options from {path!r}: {error}") from error


def _with(options: Options, option: Option, value: str | None) -> Options:
    """Return the options with one more."""
    name, text = option.name, value or ""
    if name == "profile-from-start-off":
        return _set(options, "from_start", False)
    if option.why:
        if value in option.idle:
            return options
        spelled = f"--{name} {text}".rstrip()
        note = f"{spelled} is accepted and has no effect: {option.why}."
        return replace(options, notes=(*options.notes, note))
    if name in FLAGS:
        return _set(options, FLAGS[name], True)
    try:
        if name == "kernels":
            return replace(
                options, kernels=(*options.kernels, kernel_filter.parse(text))
            )
        if name in LISTS:
            names = tuple(filter(None, text.split(",")))
            before = getattr(options, LISTS[name])
            return _set(options, LISTS[name], (*before, *names))
        attribute, reads = VALUES[name]
        return _set(options, attribute, reads(text))
    except (ValueError, re.error) as error:
        what = f": {error}" if isinstance(error, re.error) else ""
        raise OptionError(
            f"invalid value {text!r} for option --{name}{what}"
        ) from error


def _set(options: Options, name: str, value: Any) -> Options:  # noqa: ANN401
    """Set a field by its name; the tables above contain only existing fields."""
    return replace(options, **{name: value})
