"""Time our convolutions on the GPU in turns with cuDNN's; append rows of JSON.

python bench.py [--variant NAME ...] [--class NAME] [--edition NAME] [--layer NAME]
                [--images N ...] [--sweep] [--forward] [--script] [--quick]
                [--out FILE]
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, fields
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from course import cores  # noqa: F401

# isort: split
# The modules below import numpy, which must come after cores.
from course import arguments, editions
from course.errors import GpuError, ProjectError, UsageError
from course.shapes import ConvShape
from course.variants import FP32, Variant
from lab import code_hash, gpu_facts, ledger, measurement, script_time, trials
from lab.goals import MODEL, OURS
from lab.ledger import CONVOLUTION, FORWARD, SCRIPT, Row
from lab.measurement import FULL, QUICK, Rates, Rule, Spread, Stopwatch, Way
from lab.trials import Trial
from milestones import milestone

FINAL = "final.py"
FEW = 1000  # images up to which the host's time of a call is measured too
CALLS = 50
FULL_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


class Case(Protocol):
    """Images and weights on a GPU."""

    def part(self, variant: Variant) -> Variant:
        """Return the choice that computes this shape here; raise UsageError."""

    def ours(self, part: Variant) -> Way:
        """Load a variant; return its implementation."""

    def check(self, way: Way) -> tuple[float, int]:
        """Run it once into NaN; return its error and the number of missing elements."""

    def peers(self, part: Variant) -> dict[str, Way]:
        """Return cuDNN's implementations by layout."""

    def peer_error(self, way: Way) -> float:
        """Return the error of a peer's result."""


class Laboratory(Stopwatch, Protocol):
    """Where rows are measured: a GPU, or a test's substitute."""

    def call_ms(self, way: Way) -> float:
        """Return the host's milliseconds of a call, from an idle GPU to an idle GPU."""

    def facts(self) -> dict[str, Any]:
        """Return the current facts about the machine."""

    def case(self, shape: ConvShape, seed: int) -> AbstractContextManager[Case]:
        """Make random images and weights."""


class Bench:
    """A run of the benchmark, which makes its rows."""

    def __init__(self, lab: Laboratory, rates: Rates, rule: Rule, seed: int) -> None:
        self._lab, self._rates, self._rule, self._seed = lab, rates, rule, seed
        self._shared = {"commit": gpu_facts.commit(), "run": secrets.token_hex(4)}

    def rows(self, trial: Trial) -> Iterator[Row]:
        """Measure a trial's variants on the same images and weights; yield rows."""
        try:
            with self._lab.case(trial.shape, self._seed) as case:
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
            found |= checked(case, way, part.rtol)
            if found["why"] is None:
                timed = self._timed(trial, part, case, way)
                # Check again: with a race the first result may have been right.
                again = checked(case, way, part.rtol)
                found |= again if again["why"] else {**timed, "ok": True}
        except GpuError as error:
            found["why"] = str(error)
            if not out_of_memory(error):  # the context is unusable
                found["fatal"] = True
        except ProjectError as error:
            found["why"] = str(error).splitlines()[0]
        return self._assembled(trial, variant, found)

    def _timed(self, trial: Trial, part: Variant, case: Case, way: Way) -> Row:
        """Time a correct variant in turns with cuDNN, if PyTorch is installed."""
        peers = {} if trial.swept else case.peers(part)
        times = measurement.alternate({OURS: way, **peers}, self._lab, self._rule)
        ours = times.pop(OURS)
        shape, stored = trial.shape, measurement.STORED[part.storage]
        floors = measurement.floors(shape, trials.arithmetic(part), stored, self._rates)
        return {
            **figures(ours),
            "gflops": round(1e-6 * measurement.flops(shape) / ours.median_ms, 1),
            "gbps": round(
                1e-6 * measurement.moved_bytes(shape, stored) / ours.median_ms, 1
            ),
            "floor_bytes_ms": short(floors.bytes_ms),
            "floor_flops_ms": short(floors.flops_ms),
            **compared(ours, times, {n: case.peer_error(w) for n, w in peers.items()}),
            "call_ms": {
                name: short(median(self._lab.call_ms(each) for _ in range(CALLS)))
                for name, each in {OURS: way, **peers}.items()
                if trial.images <= FEW
            },
        }

    def forward(self, found: Iterable[Row], images: int) -> Iterator[Row]:
        """Yield rows of whole forward passes, ours compared with PyTorch's."""
        head: Row = {"what": FORWARD, "class": FP32, "edition": trials.MAIN}
        head |= {"model": MODEL, "images": images, "swept": False}
        for row in with_peers(list(found)):
            yield {**head, "quick": False, **row, **self._circumstances()}

    def script(self, name: str, times: Spread, last: str) -> Row:
        """Return the row of a script's time, from its start to its last line."""
        return {
            "what": SCRIPT,
            "variant": name,
            "class": FP32,
            "edition": trials.MAIN,
            "model": MODEL,
            "images": trials.IMAGES,
            "swept": False,
            "quick": False,
            "ok": bool(last),
            "why": None if last else "it failed",
            "said": last,
            **(figures(times) if last else {}),
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
            "swept": trial.swept,
            "quick": self._rule != FULL,
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


def checked(case: Case, way: Way, tolerance: float) -> Row:
    """Run an implementation once; return its error, and what is wrong if anything."""
    error, missing = case.check(way)
    return {
        "error": short(error) if isfinite(error) else None,
        "why": measurement.fault(error, tolerance, missing),
    }


def out_of_memory(error: GpuError) -> bool:
    """Return whether memory ran out, after which the GPU still works."""
    return str(error).startswith(FULL_MEMORY)


def figures(times: Spread) -> Row:
    """Return the columns of a row for some times."""
    return {name: short(value) for name, value in asdict(times).items()}


def compared(
    ours: Spread, peers: Mapping[str, Spread], errors: Mapping[str, float]
) -> Row:
    """Return the columns that compare with cuDNN's faster layout."""
    if not peers:
        return {"peer": None, "times_peer": None}
    layout = min(peers, key=lambda name: peers[name].median_ms)
    best = peers[layout]
    medians = {name: short(times.median_ms) for name, times in peers.items()}
    return {
        "peer": {
            "layout": layout,
            **figures(best),
            "error": short(errors[layout]),
            "medians_ms": medians,
        },
        "times_peer": short(best.median_ms / ours.median_ms),
    }


def with_peers(found: Sequence[Row]) -> Iterator[Row]:
    """Yield each of our forward passes with PyTorch's fastest implementations.

    A name with a colon is a step of a pass, timed by itself.
    """
    peers = {}
    for kind in ("eager", "compiled"):
        ways = [row for row in found if row["name"].startswith(f"PyTorch, {kind}")]
        if ways:
            peers[kind] = min(ways, key=lambda row: row["median_ms"])
    times = [field.name for field in fields(Spread)]
    for row in found:
        name = row["name"]
        if ":" in name or name.startswith("PyTorch"):
            continue
        steps = {r["name"]: r for r in found if r["name"].startswith(f"{name}: ")}
        yield {
            "variant": name,
            "ok": row["ok"],
            "why": None if row["ok"] else "the result differs from float64",
            **{key: value for key, value in row.items() if key not in {"name", *times}},
            **({key: short(row[key]) for key in times} if row["ok"] else {}),
            "peers": {
                kind: {
                    "way": peer["name"],
                    **{key: short(peer[key]) for key in times},
                    "times": short(peer["median_ms"] / row["median_ms"]),
                }
                for kind, peer in peers.items()
            },
            "steps_ms": {
                step.removeprefix(f"{name}: "): short(r["median_ms"])
                for step, r in steps.items()
            },
        }


def short(value: float) -> float:
    """Round to five significant digits."""
    return value if isinstance(value, int) else float(f"{value:.5g}")


def line(row: Row) -> str:
    """Return a row as a line of text."""
    layer = row.get("layer", row["what"])
    name = f"{row['variant']:16} {row['class']:5} {row['edition']} {layer}"
    name += f" {row['images']:6}"
    if not row["ok"]:
        return f"{name}  {row['why']}"
    if row["what"] == FORWARD:
        ratios = (f"{peer['times']:.2f} x {n}" for n, peer in row["peers"].items())
        return f"{name}  {row['median_ms']:9.4f} ms  {', '.join(ratios)}"
    if row["what"] == SCRIPT:
        return f"{name}  {row['median_ms']:9.1f} ms  {row['said']}"
    ratio = row["times_peer"]
    peer = f"{ratio:6.2f} x cuDNN" if ratio else "no peer"
    share = max(row["floor_bytes_ms"], row["floor_flops_ms"]) / row["median_ms"]
    return (
        f"{name}  {row['median_ms']:9.4f} ms  n {row['n']:3}  error {row['error']:.1e}"
        f"  {peer}  {share:4.0%} of floor  {row['params'] or ''}"
    )


def read() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--variant", action="append", default=[], metavar="NAME", help="repeatable")
    add("--class", dest="accuracy", metavar="NAME", help="fp32, tf32 or half")
    add("--edition", metavar="NAME", help=f"(default: {trials.MAIN})")
    add("--layer", choices=trials.LAYERS)
    add("--images", action="append", default=[], type=arguments.count, metavar="N")
    add("--forward", action="store_true", help="only the whole forward pass")
    add("--script", action="store_true", help=f"only {FINAL} as a whole")
    add("--sweep", action="store_true", help="try each variant's parameter values")
    add("--quick", action="store_true", help="fewer samples; ignored by results.py")
    add("--seed", type=int, default=None, help="(default: random)")
    add("--out", type=Path, help="(default: project/measurements/<GPU>.jsonl)")
    return parser.parse_args()


def main() -> None:
    """Measure the selection; append each row as soon as it is measured."""
    words = read()
    names = (words.variant, words.accuracy, words.edition, words.layer, words.images)
    narrowed = trials.Selection(*names, sweep=words.sweep)
    only = words.forward or words.script
    wanted = [] if only else trials.programme(narrowed)
    whole = not (only or narrowed.narrowed)
    from gpu.device import Device
    from lab.bench_gpu import Lab

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
        rule = QUICK if words.quick else FULL
        seed = secrets.randbits(32) if words.seed is None else words.seed
        out = words.out or ledger.file(device.name)
        bench = Bench(lab, lab.rates(), rule, seed)
        if scripts:
            keep(bench.script(FINAL, *scripts), out)
        for trial in wanted:
            for row in bench.rows(trial):
                keep(row, out)
        if words.forward or whole:
            from lab.forward_bench import forward_rows

            for images in words.images or (trials.IMAGES,):
                try:
                    pixels = milestone.load_images(editions.DEFAULT, images).pixels
                    found = forward_rows(lab, pixels)
                except UsageError as error:  # such as an unsupported GPU
                    milestone.warn(str(error))
                    continue
                for row in bench.forward(found, images):
                    keep(row, out)


def keep(row: Row, out: Path) -> None:
    """Print a row and append it to a file; raise GpuError after a fatal one."""
    print(line(row), flush=True)
    ledger.keep({**row, "code": code_hash.of(row)}, out)
    if row.get("fatal"):
        raise GpuError(row["why"])


if __name__ == "__main__":
    milestone.run(main)
