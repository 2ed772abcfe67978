"""Compile every kernel for every target and print a table; needs no GPU.

python compile.py [variant or layer ...] [--edition NAME]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

from course import editions, graph
from course.errors import UsageError
from course.variants import LADDER_TARGETS, usual
from gpu import compiler, forward
from gpu.compiler import Compiled, Unit, defines
from milestones import milestone
from plans.kernels import VARIANTS
from plans.layers import LAYERS

ROW = "{:20} {:8} {:22} {:>9} {:>6} {:>7}  {}"
_KERNEL = re.compile(
    r"Compiling entry function '(\w+)'.*?"
    r"(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
    re.DOTALL,
)


@dataclass(frozen=True)
class Usage:
    """The resources that a kernel uses."""

    kernel: str
    registers: int
    spilled_bytes: int


def wanted(
    names: Sequence[str] = (), only: str | None = None
) -> Iterator[tuple[Unit, tuple[str, ...]]]:
    """Yield every file with its targets, for all editions or one.

    Raises UsageError for an unknown name.
    """
    chosen = [editions.edition(only)] if only else editions.EDITIONS.values()
    known = [*LAYERS, *VARIANTS, *forward.FILES]
    for name in names or known:
        if name not in known:
            raise UsageError(f"unknown kernel `{name}`; choose from {', '.join(known)}")
        if name in LAYERS:
            yield Unit(f"network/{name}", defines(LAYERS[name])), LADDER_TARGETS
            continue
        if name in forward.FILES:
            units = (u for u in forward.units_of_editions() if u.path.stem == name)
            yield from ((u, (u.target(forward.ARCHITECTURE),)) for u in units)
            continue
        variant = VARIANTS[name]
        served: dict[Unit, dict[str, None]] = {}
        shapes = [
            shape
            for edition in chosen
            for model in edition.models
            for shape in graph.convolutions(model.layers, 1, edition.size)
        ]
        for part, shape in product(variant.parts, shapes):
            for target in part.targets:
                gpu = usual(target.removesuffix("a"))
                if part.refusal(shape, gpu) is None:
                    unit = compiler.unit_of(part.of(shape, gpu), shape)
                    served.setdefault(unit, {})[target] = None
        yield from ((unit, tuple(named)) for unit, named in served.items())


def usages(log: str) -> list[Usage]:
    """Parse the assembler's log: the resources of each kernel."""
    return [
        Usage(name, int(registers), int(stores) + int(loads))
        for name, stores, loads, registers in _KERNEL.findall(log)
    ]


def rows(unit: Unit, architecture: str, compiled: Compiled) -> Iterator[str]:
    """Yield a row of the table for each kernel of a compiled file."""
    sizes = " ".join(unit.options)
    for usage in usages(compiled.log):
        used = usage.kernel, usage.registers, usage.spilled_bytes
        yield ROW.format(
            unit.path.name, architecture, *used, len(compiled.cubin), sizes
        )


def main() -> None:
    """Compile all kernels, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", help=", ".join([*LAYERS, *VARIANTS, *forward.FILES])
    )
    parser.add_argument("--edition", help="compile only what this edition needs")
    arguments = parser.parse_args()
    toolkit = compiler.find()
    jobs = [
        (unit, architecture)
        for unit, named in wanted(arguments.names, arguments.edition)
        for architecture in named
    ]
    print(f"CUDA {toolkit.version}")
    heads = ("file", "target", "kernel", "registers", "spills", "bytes", "options")
    print(ROW.format(*heads))
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda job: toolkit.compile(*job), jobs)
        for job, compiled in zip(jobs, made, strict=True):
            print(*rows(*job, compiled), sep="\n", flush=True)


if __name__ == "__main__":
    milestone.run(main)
