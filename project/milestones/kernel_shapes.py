"""Write rai-kernels.json in a run of rai: the networks that ran, and their kernels.

docs/results.md describes the file. Each script of a run adds to it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from course import graph
from course.graph import Convolution, Dense
from course.network import Inference, Network

FILE = "rai-kernels.json"
FORMAT = 1
MOST_BYTES = 1 << 20  # that rai reads
LISTS = ("networks", "kernels")
NOT_OURS = ValueError, TypeError, AttributeError, RecursionError  # of another file
BUILD = "RAI_BUILD_DIR"  # rai sets it in a run

Json = dict[str, Any]


def folder() -> Path | None:
    """Return the build folder of a run of rai; None outside of one."""
    named = os.environ.get(BUILD)
    return Path(named) if named else None


def add(
    build: Path,
    words: Sequence[str],
    network: Network,
    images: int,
    found: Inference,
) -> None:
    """Add what one inference computed to the file in a folder.

    ``words`` are the program's file and arguments. Entries of other commands and
    variants stay. A folder that cannot be written to, and a file that is not of this
    format, are left as they are.
    """
    command = {"script": Path(words[0]).name, "arguments": list(words[1:])}
    new = {
        "networks": [{**_network(network, images), **command}],
        "kernels": [
            {**work, **command, "batch_size": images}
            for work in _kernels(network, images, found)
        ],
    }
    with suppress(OSError, *NOT_OURS), _locked(build):
        path = build / FILE
        merged = merge(_read(path), new)
        text = json.dumps(merged) + "\n"
        if len(text) <= MOST_BYTES:
            whole = path.with_name(f".{path.name}.part")
            whole.write_text(text, encoding="utf-8")
            whole.replace(path)


def merge(old: Json, new: Json) -> Json:
    """Return entries of a file with new ones in the place of those that they renew."""
    merged: Json = {"format": FORMAT}
    for name in LISTS:
        renewed = {_key(entry) for entry in new[name]}
        kept = [entry for entry in old.get(name, []) if _key(entry) not in renewed]
        merged[name] = [*kept, *new[name]]
    return merged


def _key(entry: Json) -> tuple[str, ...]:
    """Return what says which command, and which variant, an entry is of."""
    return tuple(str(entry.get(key)) for key in ("script", "arguments", "variant"))


def _network(network: Network, images: int) -> Json:
    from lab import kernel_work

    weights = graph.array_shapes(network.model.layers, network.edition.size)
    entries = []
    for step in graph.steps(network.model.layers, network.edition.size):
        layer = step.layer
        flops, moved = kernel_work.of_layer(step, images)
        entry = {
            "name": layer.name,
            "kind": type(layer).__name__.lower(),
            "input": [images, *step.x],
            "output": [images, *step.y],
        }
        if isinstance(layer, Convolution | Dense):
            entry["weights"] = list(weights[layer.weight])
        if flops:
            entry |= {"flops": flops, "bytes": moved}
        if isinstance(layer, Convolution) and layer.own:
            entry["timed"] = True
        entries.append(entry)
    name = f"{network.model.name}, {network.edition.name}"
    return {"name": name, "batch_size": images, "layers": entries}


def _kernels(network: Network, images: int, found: Inference) -> Iterator[Json]:
    from lab import kernel_work

    if found.own_kernels is None:
        return
    for work in kernel_work.of_network(network, images, found.own_kernels):
        entry = {
            "kernel": work.launch.kernel,
            "variant": work.variant,
            "layer": work.layer,
            "grid": list(work.launch.grid),
            "block": list(work.launch.block),
            "launches": work.count,
            "bytes": work.bytes,
            "accuracy_class": work.accuracy,
            "unit": work.unit,
        }
        entry |= {"flops": work.flops} if work.flops else {}
        entry |= {"unit_flops": work.unit_flops} if work.unit_flops else {}
        yield entry


@contextmanager
def _locked(build: Path) -> Iterator[None]:
    """Keep other scripts from writing; the lock is on the folder, so no file stays."""
    handle = os.open(build, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(path: Path) -> Json:
    """Return the file's lists; {} without one; raise NOT_OURS if it is another."""
    try:
        with path.open("rb") as file:
            said = json.loads(file.read(MOST_BYTES + 1))
    except FileNotFoundError:
        return {}
    lists = {name: said.get(name, []) for name in LISTS}
    plain = all(isinstance(entries, list) for entries in lists.values())
    if said.get("format", FORMAT) != FORMAT or not plain:
        raise ValueError(f"{path} is not of format {FORMAT}")
    return lists
