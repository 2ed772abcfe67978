"""Hash the code that a row measured, so that figures are published of what runs.

The hash of a convolution is made of its files with their headers but without lines of
comments, of its entry in a plan.json (macros, launches, scratch memory), and of the
Python that compiles and launches it; not of the code that measures it, nor of other
variants, nor of the folders that files lie in.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Iterable, Iterator

from backends.cuda_gpu import LAYER_UNITS
from course import editions
from course.shapes import ConvShape
from course.variants import FP32, Gpu, Variant, usual
from gpu import compiler, device, device_convolution, forward, planned
from gpu.compiler import Unit
from host import cache
from lab import trials
from lab.bench_gpu import TIMING
from lab.ledger import CONVOLUTION, EMPTY, FORWARD, JUDGED, SCRIPT, Row
from plans import kernels
from plans.kernels import VARIANTS

LAUNCHERS = (
    *(compiler.Unit, compiler.Nvcc),
    *(device.Module, device_convolution.DeviceConvolution),
)
FORWARD_FILES = ("gpu/forward.py", "gpu/forward_gpu.py")
_FOLDER = re.compile(rb'(#include "|project/)\w+/')
_COMMENT = re.compile(rb"^ *//(?:.*[^\\\n])?\n", re.MULTILINE)  # not "\\": it goes on


def of(row: Row) -> str | None:
    """Return the hash of what a row measures, as it is in the tree.

    It is None where there is no such variant any more.
    """
    machine, images = row["machine"], row["images"]
    gpu = usual(machine["architecture"])
    if "multiprocessors" in machine:
        gpu = Gpu(gpu.architecture, machine["multiprocessors"])
    if row["what"] == FORWARD:
        return cache.key(_forward(images, gpu))
    if row["what"] == SCRIPT:
        return cache.key(_script(row["variant"], images, gpu))
    if row["what"] == EMPTY:
        return cache.key([*_sources(TIMING), *_launchers()])
    variant = VARIANTS.get(row["variant"])
    if variant is None:
        return None
    if row["what"] == JUDGED:  # which launches it by itself
        return cache.key(_both(variant, row["edition"], images, gpu))
    launched = _convolution(variant, ConvShape(**row["shape"]), gpu)
    return cache.key([*launched, *_launchers()])


def stale(rows: Iterable[Row]) -> list[Row]:
    """Return the rows that were measured with other code than that in the tree."""
    return [row for row in rows if row.get("code") is None or row["code"] != of(row)]


def again(row: Row) -> str:
    """Return the command that measures a row again."""
    if row["what"] == JUDGED:
        return "python -m tools.benchmarks.judge_ladder"
    command = "python project/bench.py"
    if row["what"] == EMPTY:
        return f"{command} --variant best --images 100"
    if row["what"] != CONVOLUTION:
        return f"{command} --{row['what']}"
    command += f" --variant {row['variant']}"
    if row["edition"] != trials.MAIN:
        command += f" --edition {row['edition']}"
    if row["images"] != trials.IMAGES:
        command += f" --images {row['images']}"
    return command + " --wide" * bool(row.get("wide"))


def _convolution(variant: Variant, shape: ConvShape, gpu: Gpu) -> Iterator[bytes]:
    if why := variant.refusal(shape, gpu):
        yield why.encode()
        return
    part = variant.of(shape, gpu)
    unit = compiler.unit_of(part, shape)
    entry = planned.convolution("", part, shape, unit)
    entry["launches"] = list(map(planned.launch, part.launches(shape)))
    entry["unit"]["file"] = unit.path.name
    yield _json(entry)
    yield from _sources(unit)


def _forward(images: int, gpu: Gpu) -> Iterator[bytes]:
    edition = editions.DEFAULT
    model = edition.with_convolutions(own=True)[0]
    chain = forward.chain(model.layers, images, edition.size)
    for unit in forward.units(chain):
        yield _json([unit.options, unit.target(gpu.architecture)])
        yield from _sources(unit)
    yield from _convolution(kernels.best(FP32), chain.second, gpu)
    for name in FORWARD_FILES:
        yield (compiler.FOLDER.parent / name).read_bytes()
    yield from _launchers()


def _script(name: str, images: int, gpu: Gpu) -> Iterator[bytes]:
    yield (compiler.FOLDER.parent / name).read_bytes()
    yield from _both(kernels.best(FP32), trials.MAIN, images, gpu)
    for unit in LAYER_UNITS.values():
        yield from _sources(unit)
    yield from _launchers()


def _both(variant: Variant, edition: str, images: int, gpu: Gpu) -> Iterator[bytes]:
    """Yield what is compiled and launched for all convolutions of an edition."""
    for shape in planned.shapes(editions.edition(edition), images).values():
        yield from _convolution(variant, shape, gpu)


@functools.cache
def _sources(unit: Unit) -> tuple[bytes, ...]:
    without = (_COMMENT.sub(b"", text) for text in unit.sources())
    return tuple(_FOLDER.sub(rb"\1", text) for text in without)


@functools.cache
def _launchers() -> tuple[bytes, ...]:
    return tuple(inspect.getsource(each).encode() for each in LAUNCHERS)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
