"""Time our convolutions on the GPU in turns with cuDNN's; append rows of JSON.

python bench.py [--variant NAME ...] [--class NAME] [--edition NAME] [--layer NAME]
                [--images N ...] [--wide] [--forward] [--script]
                [--out FILE]
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course import cores  # noqa: F401

# isort: split
# The modules below import numpy, which must come after cores.
from course import arguments, editions
from course.errors import GpuError, ProjectError, UsageError
from course.variants import FP32, RTOL, Variant
from lab import code_hash, gpu_facts, ledger, measurement, script_time, trials
from lab.bench_gpu import Case, Lab
from lab.float64 import Errors
from lab.goals import MODEL
from lab.ledger import CONVOLUTION, EMPTY, FORWARD, SCRIPT, Row
from lab.measurement import FULL, Rates, Rule, Spread, Way
from lab.trials import Trial
from milestones import milestone

FINAL = "final.py"
OURS, TRITON = "ours", "Triton"
FULL_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


class Bench:
    """A run of the benchmark, which makes its rows."""

    def __init__(self, lab: Lab, rates: Rates, rule: Rule, seed: int) -> None:
        self._lab, self._rates, self._rule, self._seed = lab, rates, rule, seed
        self._shared = {"commit": gpu_facts.commit(), "run": secrets.token_hex(4)}

    def rows(self, trial: Trial) -> Iterator[Row]:
        """Measure a trial's variants on the same images and weights; yield rows."""
        try:
            with self._lab.case(trial, self._seed) as case:
                for variant in trial.variants:
                    yield self._row(trial, variant, case)
        except GpuError as error:
            if not out_of_memory(error):
                raise
            for variant in trial.variants:
                yield self._assembled(trial, variant, {"ok": False, "why": str(error)})

    def _row(self, trial: Trial, variant: Variant, case: Case) -> Row:
        """Measure one variant; a wrong or failed one gets a row without a time."""
        found: dict[str, Any] = {"ok": False}
        try:
            part = case.part(variant)
            found["part"], found["arithmetic"] = part.name, trials.arithmetic(part)
            found["params"] = part.parameters(trial.shape)
            way = case.ours(part)
            found |= checked(case.check(way), part)
            if found["why"] is None:
                timed = self._timed(trial, variant, case, way)
                # Check again: with a race the first result may have been right.
                again = checked(case.check(way), part)
                found |= again if again["why"] else {**timed, "ok": True}
        except GpuError as error:
            found["why"] = str(error)
            if not out_of_memory(error):  # the context is unusable
                found["fatal"] = True
        except ProjectError as error:
            found["why"] = str(error).splitlines()[0]
        return self._assembled(trial, variant, found)

    def _timed(self, trial: Trial, variant: Variant, case: Case, way: Way) -> Row:
        """Time a correct variant in turns with cuDNN, if PyTorch is installed."""
        part, thorough = case.part(variant), trial.thorough(variant)
        peers = {} if trial.wide else case.peers(part)
        triton = case.triton() if thorough and part.accuracy == FP32 else None
        ways = {OURS: way, **peers, **({TRITON: triton} if triton else {})}
        times = measurement.alternate(ways, self._lab.sample, self._rule)
        ours, shape = times[OURS], trial.shape
        stored = measurement.STORED[part.storage]
        kind = trials.arithmetic(part)
        row: Row = {
            **ours.figures(),
            **measurement.modelled(shape, kind, stored, self._rates),
            **measurement.compared(ours, {name: times[name] for name in peers}),
        }
        if peer := row["peer"]:
            peer |= errors(case.peer_check(peers[peer["way"]]))
        if triton:
            row["triton"] = times[TRITON].figures() | errors(case.peer_check(triton))
        if thorough:
            steady = measurement.back_to_back(way, self._lab.sample)
            row["back_to_back"] = steady.figures()
        return row

    def script(self, name: str, times: Spread, last: str) -> Row:
        """Return the row of a script's time, from its start to its last line."""
        return {
            **self.other(SCRIPT, trials.IMAGES),
            "variant": name,
            "ok": bool(last),
            "why": None if last else "it failed",
            "said": last,
            **(times.figures() if last else {}),
        }

    def empty(self) -> Row:
        """Return the row of an empty kernel's time."""
        ways = {EMPTY: self._lab.nothing}
        times = measurement.alternate(ways, self._lab.sample, self._rule)[EMPTY]
        named = {"variant": EMPTY, "ok": True, "why": None}
        return {**self.other(EMPTY, 0), **named, **times.figures()}

    def other(self, what: str, images: int) -> Row:
        """Return what every row has that is not of a convolution."""
        return {
            "what": what,
            "class": FP32,
            "edition": trials.MAIN,
            "model": MODEL,
            "images": images,
            "wide": False,
            **self._circumstances(),
        }

    def _assembled(
        self, trial: Trial, variant: Variant, found: Mapping[str, Any]
    ) -> Row:
        """Return a whole row."""
        layer = trial.layer
        return {
            "what": CONVOLUTION,
            "variant": variant.name,
            "class": variant.accuracy,
            "edition": layer.edition,
            "model": layer.model,
            "layer": layer.name,
            "images": trial.images,
            "shape": asdict(trial.shape),
            "wide": trial.wide,
            "seed": self._seed,
            **found,
            **self._circumstances(),
        }

    def _circumstances(self) -> Row:
        """Return where and when a row is measured."""
        return {
            "rates": asdict(self._rates),
            "machine": self._lab.facts(),
            **self._shared,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def checked(found: Errors, part: Variant) -> Row:
    """Return the errors of a result, and what is wrong if anything."""
    return {**errors(found), "why": found.fault(part)}


def errors(found: Errors) -> Row:
    """Return the columns of errors."""
    short = measurement.short
    return {"error": short(found.norm), "by_element": short(found.by_element)}


def out_of_memory(error: GpuError) -> bool:
    """Return whether memory ran out, after which the GPU still works."""
    return str(error).startswith(FULL_MEMORY)


def line(row: Row) -> str:
    """Return a row as a line of text."""
    layer = row.get("layer", row["what"])
    name = f"{row['variant']:16} {row['class']:5} {row['edition']} {layer}"
    name += f" {row['images']:6}"
    if not row["ok"]:
        return f"{name}  {row['why']}"
    name += f"  {row['median_ms']:9.4f} ms  n {row['n']:3}"
    if "mhz" in row:
        name += f"  {row['mhz'][0]:.0f} MHz"
    if "error" in row:
        name += f"  error {row['error']:.1e}"
    if row.get("peer"):
        name += f"  {row['times_peer']:6.2f} x {row['peer']['way']}"
    if "by_element" in row:
        name += f"  by element {row['by_element']:.1e}  {row['params'] or ''}"
    return f"{name}  {row.get('said', '')}".rstrip()


def read() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--variant", action="append", default=[], metavar="NAME", help="repeatable")
    add("--class", dest="accuracy", choices=tuple(RTOL))
    add("--edition", metavar="NAME", help=f"(default: {trials.MAIN})")
    add("--layer", choices=trials.LAYERS)
    add("--images", action="append", default=[], type=arguments.count, metavar="N")
    add("--forward", action="store_true", help="only the whole forward pass")
    add("--script", action="store_true", help=f"only {FINAL} as a whole")
    add("--wide", action="store_true", help="numbers that fast kernels leave")
    add("--seed", type=int, default=None, help="(default: random)")
    add("--out", type=Path, help="(default: project/measurements/<GPU>.jsonl)")
    return parser.parse_args()


def main() -> None:
    """Measure the selection; append each row as soon as it is measured."""
    words = read()
    names = (words.variant, words.accuracy, words.edition, words.layer, words.images)
    only = words.forward or words.script
    whole = not (only or words.wide or any(names))
    wanted = trials.programme() if whole else trials.narrowed(*names, words.wide)
    if only:
        wanted = []
    from gpu.device import Device

    scripts = None
    if words.script or whole:
        # Run it before this process uses the GPU.
        scripts = script_time.script_time(FINAL, str(trials.IMAGES))
    with Device() as device:
        lab = Lab(device)
        milestone.warn(
            None if lab.torch else "PyTorch is not installed: cuDNN is not measured"
        )
        lab.warm(wanted)
        seed = secrets.randbits(32) if words.seed is None else words.seed
        out = words.out or ledger.file(device.name)
        bench = Bench(lab, lab.rates(), FULL, seed)
        if scripts:
            keep(bench.script(FINAL, *scripts), out)
        if wanted:
            keep(bench.empty(), out)
        for trial in wanted:
            for row in bench.rows(trial):
                keep(row, out)
        if words.forward or whole:
            forward(bench, lab, words.images or (trials.FEW, trials.IMAGES), out)


def forward(bench: Bench, lab: Lab, sizes: Iterable[int], out: Path) -> None:
    """Measure forward passes of some numbers of images."""
    from lab import forward_bench

    for images in sizes:
        try:
            pixels = milestone.load_images(editions.DEFAULT, images).pixels
            for row in forward_bench.rows(lab, pixels):
                keep(bench.other(FORWARD, images) | row, out)
        except UsageError as error:  # such as an unsupported GPU
            milestone.warn(str(error))


def keep(row: Row, out: Path) -> None:
    """Print a row and append it to a file; raise GpuError after a fatal one."""
    print(line(row), flush=True)
    ledger.keep({**row, "code": code_hash.of(row)}, out)
    if row.get("fatal"):
        raise GpuError(row["why"])


if __name__ == "__main__":
    milestone.run(main)
