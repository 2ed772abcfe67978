"""The words that users add to sbatch: which options rai leaves to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.core.problem import Problem

EXAMPLE = "--reservation=course"

_ITS_JOBS = "rai needs it for its jobs"
_FILE = "the build file says it: resources."
_GPUS = f"{_FILE}gpu"
_MEMORY = f"{_FILE}limits.memory"
_TIME = f"{_FILE}limits.time"
_CORES = f"{_FILE}cpu.cores, or the setting slurm.cores"

TAKEN = {
    **dict.fromkeys(
        (
            *("array", "chdir", "clusters", "dependency", "error", "export"),
            *("export-file", "get-user-env", "gid", "help", "input", "job-name"),
            *("nodefile", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu"),
            *("ntasks-per-node", "ntasks-per-socket", "open-mode", "output"),
            *("parsable", "requeue", "test-only", "uid", "usage", "version", "wait"),
            *("workdir", "wrap"),
        ),
        _ITS_JOBS,
    ),
    "nodelist": "rai chooses the node; use --constraint or --exclude",
    "partition": "name it with --on slurm:PARTITION",
    "account": "set slurm.account",
    "qos": "set slurm.qos",
    "constraint": "set slurm.constraint",
    **dict.fromkeys(
        (
            *("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres"),
            "cpus-per-gpu",
        ),
        _GPUS,
    ),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _MEMORY),
    **dict.fromkeys(("time", "time-min"), _TIME),
    "cpus-per-task": _CORES,
}
"""Options of sbatch that are not the users', and what says these things instead."""

_SHORT = {
    "a": "array",
    "d": "dependency",
    "D": "chdir",
    "e": "error",
    "h": "help",
    "i": "input",
    "J": "job-name",
    "M": "clusters",
    "N": "nodes",
    "n": "ntasks",
    "o": "output",
    "w": "nodelist",
    "F": "nodefile",
    "V": "version",
    "W": "wait",
    "p": "partition",
    "A": "account",
    "q": "qos",
    "C": "constraint",
    "G": "gpus",
    "t": "time",
    "c": "cpus-per-task",
    "x": "exclude",
}
_FLAGS = "HkOQsv"
"""Short options without a value, after which others may follow in one word."""


def refused(words: Sequence[str]) -> Iterator[Problem]:
    """Yield why words cannot be given to sbatch as they are.

    An option's value has to be in its word: sbatch would take a word alone as the name
    of a script.
    """
    for word in words:
        if not word.isprintable():
            yield Problem(f"{word!r} has characters that cannot be printed")
        elif not word.startswith("-"):
            hint = f"write an option and its value as one word: {EXAMPLE}"
            yield Problem(f"{word!r} is no option of sbatch", hint=hint)
        elif word.startswith("--"):
            yield from _long(word)
        else:
            yield from _short(word)


def _long(word: str) -> Iterator[Problem]:
    given = word[2:].partition("=")[0]
    # sbatch takes the beginning of an option's name for the whole.
    names = [name for name in TAKEN if name.startswith(given)]
    if names:
        name = given if given in TAKEN else names[0]
        yield Problem(f"--{name} cannot be added", hint=TAKEN[name])


def _short(word: str) -> Iterator[Problem]:
    letter = word[1:].lstrip(_FLAGS)[:1]
    name = _SHORT.get(letter, "")
    if name in TAKEN:
        yield Problem(f"-{letter} (--{name}) cannot be added", hint=TAKEN[name])
    elif name or not word[1:]:
        yield Problem(f"{word!r} cannot be added", hint=f"write --{name or 'OPTION'}=")
