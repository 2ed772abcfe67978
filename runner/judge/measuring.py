"""Measure the entries of a job on the GPU.

    python3 -m runner.judge.measuring [--source /src] [--out /build]

Reads ``job.json`` and ``compiled/N.cubin`` of the source, and writes
``measurement.json``, which says whether they are accepted. Exits 0 if it is written, 2
if the judge cannot measure here; the reasons are on stderr.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

from runner.judge import figures, folders, sandbox, trial
from runner.judge.acceptance import SiteReference
from runner.judge.bench import Bench, Seeds
from runner.judge.driver import Cuda, CudaError, GpuFacts
from runner.judge.figures import Rates, Rules
from runner.judge.nvml import Sensors
from runner.judge.player_process import JudgeError
from runner.judge.sizes import Layer
from runner.judge.trial import TrialSetup

VERSION = 1
SECRET_BYTES = 16
POLL_S = 0.25
BUSY_PERCENT = 5
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def main() -> int:
    """Measure, write the result, and return the exit status."""
    source, out = folders.read("runner.judge.measuring")
    job = json.loads((source / "job.json").read_bytes())
    try:
        found = measured(job, source)
    except (CudaError, JudgeError, OSError) as error:
        sys.stderr.write(f"cannot measure: {error}\n")
        return 2
    folders.keep_measurement(out, found)
    for entry in found["entries"]:
        for reason in entry["why"]:
            sys.stderr.write(f"{entry['variant']}: {reason}\n")
    return 0


def measured(job: Mapping[str, Any], source: Path) -> dict[str, Any]:
    """Wait for an idle, cool GPU; measure all entries; return measurement.json.

    Raises CudaError, JudgeError.
    """
    rules = Rules.from_json(job["rules"])
    secret = os.urandom(SECRET_BYTES)
    gc.disable()
    cuda = Cuda()
    gpu = cuda.facts()
    sensors = Sensors(gpu.uuid)
    seen = [0]

    def others() -> int:
        # This process has a context too.
        seen.append((sensors.processes() or 1) - 1)
        return max(seen)

    lowered = set[str]()

    def throttled() -> bool:
        reasons = sensors.throttled()
        lowered.update(reasons)
        return bool(reasons)

    began = datetime.now(UTC).isoformat(timespec="seconds")
    waited_s = _await_cool(sensors, rules)
    started = monotonic()
    entries = job["entries"]
    layers = [trial.layer_of(c) for entry in entries for c in entry["convolutions"]]
    layers = layers or [*map(_alone, job["layers"])]
    if not layers:
        raise JudgeError("job.json has no entries and no layers")
    bench = _bench(cuda, gpu, layers)
    rates = Rates(bench.copied_bytes_per_s(), l2_bytes=gpu.l2_bytes)
    sandbox.hide()
    before = sensors.celsius(), sensors.watts()
    site = SiteReference.from_json(job.get("reference"), rules)
    setting = TrialSetup(
        source,
        bench,
        rules,
        job["class"],
        site if site and site.gpu == gpu.name else None,
        rates,
        throttled,
        others,
        before[0],
        perf_counter() + trial.JOB_S,
    )
    seeds = Seeds(secret)
    # Without entries the reference is all that is measured.
    reference_ms = None if entries else trial.reference_ms(bench, layers)
    found = [_entry(setting, entry, seeds) for entry in entries]
    return {
        "version": VERSION,
        "milestone": job["milestone"],
        "class": job["class"],
        "architecture": gpu.architecture,
        "seed": secret.hex(),
        "began": began,
        "gpu": _gpu(gpu, sensors),
        "rates": figures.plain(rates),
        "waited_s": round(waited_s, 3),
        "held_s": round(monotonic() - started, 3),
        "celsius": [before[0], sensors.celsius()],
        "watts": [before[1], sensors.watts()],
        "throttled": sorted(lowered),
        "others": others(),
        "reference_ms": reference_ms,
        "entries": found,
    }


def _alone(layer: Mapping[str, Any]) -> Layer:
    """Return a layer of the milestone, beside which only the reference is timed."""
    shape = tuple(layer["shape"][name] for name in "BMCHWK")
    return Layer(layer["name"], shape, halves=False, scratch={})


def _bench(cuda: Cuda, gpu: GpuFacts, layers: Sequence[Layer]) -> Bench:
    try:
        return Bench(cuda, Path(__file__).parent, tuple(layers))
    except CudaError as error:
        if error.name != OUT_OF_MEMORY:
            raise
        most = max(sum(one.outside().values()) for one in layers)
        most += max(sum(one.inputs.values()) for one in layers)
        raise JudgeError(
            f"{gpu.name} has too little free memory for x, k, y and the scratch arrays "
            f"of these entries, {most >> 20} MiB, and for the judge's own copies"
        ) from error


def _entry(
    setting: TrialSetup, entry: Mapping[str, Any], seeds: Seeds
) -> dict[str, Any]:
    try:
        return trial.measure(setting, entry, seeds)
    except (CudaError, JudgeError) as error:
        text = f"the judge failed during {entry['variant']}: {error}"
        raise JudgeError(text) from error


def _gpu(gpu: GpuFacts, sensors: Sensors) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "uuid": gpu.uuid,
        "driver": gpu.driver,
        "memory_bytes": gpu.memory_bytes,
        "multiprocessors": gpu.multiprocessors,
        "sm_mhz_max": sensors.most_mhz(),
    }


def _await_cool(sensors: Sensors, rules: Rules) -> float:
    """Wait until the GPU is idle and cool, for a limited time; return the seconds."""
    began = monotonic()
    while (spent := monotonic() - began) < rules.cool_wait_s:
        hot = (sensors.celsius() or 0) > rules.cool_c
        if not hot and (sensors.busy_percent() or 0) <= BUSY_PERCENT:
            break
        sleep(POLL_S)
    return spent


if __name__ == "__main__":
    sys.exit(main())
