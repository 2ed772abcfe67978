"""What a partition allows its jobs, as sinfo lists it."""

from __future__ import annotations

import re

from msgspec import Struct

_FIELDS = {"Partition": 100, "Time": 20, "Gres": 400}
"""The fields and their widths in characters; a longer value is cut."""

# "gpu:4", "gpu:h100:4(S:0-1,3)", "gpu:(null):1", "gpu:1g.10gb:7"
_GPU = re.compile(
    r"(?:^|,)gpu(?::(?:[\w.-]+?|\(null\)))?(?::no_consume)?:(\d{1,6})(?![\w.:])",
    re.ASCII,
)
_PLACES = re.compile(r"\((?:S|IDX|CNT)[^)]*\)?")
"""Which sockets or numbers a field of GPUs means: ``(S:0-1,3)``."""

_TIME = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d\d)", re.ASCII)


class Partition(Struct, frozen=True):
    """The longest time of a job, None without a bound, and the most GPUs of a node."""

    time_s: float | None = None
    gpus: int = 0


def listing(name: str = "") -> list[str]:
    """Return the command that lists a partition, or several set off by ``,``."""
    fields = ",".join(f"{field}:{width}" for field, width in _FIELDS.items())
    chosen = [f"--partition={name}"] if name else []
    return ["sinfo", "--noheader", *chosen, f"--Format={fields}"]


def parse(text: str, name: str = "") -> Partition | None:
    """Return what was listed; None if there is no such partition.

    Without a name it is the default one, or all together where none is.
    """
    lines = [_cut(line) for line in text.splitlines()]
    found = [one for one in lines if one[0] and (one[1] == "infinite" or _s(one[1]))]
    if not name and any(one[0].endswith("*") for one in found):
        found = [one for one in found if one[0].endswith("*")]
    if not found:
        return None
    times = [_s(time) for _, time, _ in found]
    bounds = [time_s for time_s in times if time_s is not None]
    return Partition(
        max(bounds) if len(bounds) == len(times) else None,
        max(gpus(gres) for _, _, gres in found),
    )


def gpus(gres: str) -> int:
    """Return how many GPUs a node has, by its Gres field, whatever their models."""
    return sum(int(number) for number in _GPU.findall(_PLACES.sub("", gres)))


def _s(time: str) -> float | None:
    """Return a time such as ``1-02:00:00``, ``30:00``; None for any other word."""
    if not (found := _TIME.fullmatch(time)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds


def _cut(line: str) -> tuple[str, str, str]:
    parts, at = [], 0
    for width in _FIELDS.values():
        parts.append(line[at : at + width].strip())
        at += width
    name, time, gres = parts
    return name, time, gres
