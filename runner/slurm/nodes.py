"""The nodes of a cluster, as sinfo lists them.

sinfo is asked rather than scontrol: only there the fields are chosen by the caller, and
the GPUs in use are told without an accounting database. A field is cut at its width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from runner.core.screen import printable
from runner.core.units import MIB

_FIELDS = {
    "NodeList": 100,
    "Partition": 100,
    "Available": 12,
    "StateLong": 40,
    "CPUsState": 50,
    "Memory": 24,
    "AllocMem": 24,
    "Gres": 400,
    "GresUsed": 400,
    "Reason": 400,
}
"""The fields and their widths in characters; a reason may have lines: it is last."""

MOST_REASON = 200
MOST_NODES = 10_000
ANY_MODEL = ""

# "gpu:4", "gpu:h100:4(S:0-1,3)", "gpu:(null):1(IDX:0)", "gpu:1g.10gb:7"
_GPU = re.compile(
    r"(?:^|,)gpu(?::([\w.-]+?|\(null\)))?(?::no_consume)?:(\d{1,6})(?![\w.:])", re.ASCII
)
_CPUS = re.compile(r"(\d{1,9})/(\d{1,9})/(\d{1,9})/(\d{1,9})", re.ASCII)
_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)

_WELL = ("idle", "mixed", "allocated", "completing", "planned")
_SIGNS = frozenset("*$@^")
"""Signs after a state of nodes that start no job: they do not respond, are reserved for
maintenance, or reboot. Others, as of a node that is powered down, do not matter."""


class ClusterNode(Struct, frozen=True):
    """A node; ``why`` says why no job may start there soon, "" if one may.

    It goes on after the name, as in "node n2 is drained: a fan is broken".

    ``state`` is Slurm's word with its sign, such as ``idle*``. ``gpus`` and
    ``gpus_free`` are by their model, which is "" for GPUs without a type.
    """

    name: str
    state: str
    cores: int
    cores_free: int
    memory_bytes: int
    memory_free: int
    gpus: dict[str, int] = {}
    gpus_free: dict[str, int] = {}
    why: str = ""

    @property
    def idle(self) -> bool:
        """Whether no job has anything of it."""
        return not self.why and self.cores_free == self.cores


def listing(partition: str = "") -> list[str]:
    """Return the command that lists the nodes of a partition, or of all."""
    fields = ",".join(f"{name}:{width}" for name, width in _FIELDS.items())
    chosen = [f"--partition={partition}"] if partition else []
    return ["sinfo", "--noheader", "--Node", *chosen, f"--Format={fields}"]


def nodes(text: str, partition: str = "") -> tuple[ClusterNode, ...]:
    """Parse what ``listing`` printed; a line that is none of a node is left out.

    Without a partition the nodes of the default one are returned, or all where there is
    no default.
    """
    found = [one for line in text.splitlines() if (one := _line(line))]
    if not partition and any(default for default, _ in found):
        found = [one for one in found if one[0]]
    by_name: dict[str, ClusterNode] = {}
    for _, node in found[:MOST_NODES]:
        by_name.setdefault(node.name, node)
    return tuple(by_name.values())


def gpus(text: str) -> dict[str, int]:
    """Return the GPUs of a Gres or GresUsed field, by their model."""
    found: dict[str, int] = {}
    for model, number in _GPU.findall(_without_places(text)):
        model = ANY_MODEL if model == "(null)" else model
        found[model] = found.get(model, 0) + int(number)
    return found


def why_not(state: str, reason: str = "") -> str:
    """Return why no job may start soon on a node in this state; "" if one may."""
    word = state.lower().rstrip("*~#!%$@^-+")
    # Slurm powers a node up for a job.
    well = word in _WELL or word.startswith("power")
    if well and not _SIGNS & set(state[len(word) :]):
        return ""
    told, words = f"is {printable((state if well else word)[:40])}", _reason(reason)
    return f"{told}: {words}" if words else told


def _reason(text: str) -> str:
    """Return an administrator's reason in one line, with odd characters escaped."""
    text = " ".join(text.split())
    if text in ("", "none", "(null)", "N/A"):
        return ""
    short = text if len(text) <= MOST_REASON else f"{text[: MOST_REASON - 1]}…"
    return printable(short)


def _line(line: str) -> tuple[bool, ClusterNode] | None:
    """Return a node, and whether its partition is the default one."""
    name, partition, up, state, cpus, memory, used, gres, gres_used, why = _cut(line)
    numbers = _CPUS.fullmatch(cpus)
    if not _NAME.fullmatch(name) or not state or numbers is None:
        return None
    taken, free, _, cores = map(int, numbers.groups())
    told = why_not(state, why)
    if not told and up.lower() != "up":
        names = printable(partition.rstrip("*"))
        told = f"takes no job: the partition {names} is {printable(up)}"
    memory_bytes, memory_used = _mib(memory), _mib(used)
    there, in_use = gpus(gres), gpus(gres_used)
    other = 0 if ANY_MODEL in there else in_use.get(ANY_MODEL, 0)
    return partition.endswith("*"), ClusterNode(
        name,
        state,
        cores,
        0 if told else min(free, max(cores - taken, 0)),
        memory_bytes,
        max(memory_bytes - memory_used, 0),
        there,
        {model: max(n - in_use.get(model, 0) - other, 0) for model, n in there.items()},
        told,
    )


def _cut(line: str) -> Sequence[str]:
    parts, at = [], 0
    for width in _FIELDS.values():
        parts.append(line[at : at + width].strip())
        at += width
    return parts


def _without_places(text: str) -> str:
    """Return a Gres field without which sockets or numbers it means: ``(S:0-1,3)``."""
    return re.sub(r"\((?:S|IDX|CNT)[^)]*\)?", "", text)


def _mib(text: str) -> int:
    return int(text) * MIB if text.isdecimal() and len(text) < 16 else 0
