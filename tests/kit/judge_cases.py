"""Samples and measurements as a judge would make them, from seeded random numbers."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from runner.core.measurement import Measurement, from_json
from runner.judge import figures
from runner.judge.figures import Sample

LAYERS = {"conv1": (0.62, 2.4), "conv2": (0.55, 3.0)}
"""Each layer's time and the reference's, in milliseconds."""

SITE_MS = 5.4
MHZ = {"conv1": (1935.0, 1950.0, 1980.0)}


def samples(
    random: Random, *, rounds: int = 40, noise: float = 0.01, faster: float = 1.0
) -> list[Sample]:
    """Return honest samples, each with a noise of its own."""
    return [
        Sample(
            layer=name,
            round=number,
            ms=ms * faster * random.gauss(1, noise),
            reference_ms=reference * random.gauss(1, noise),
            reference_mhz=1980 - 15 * random.randrange(3),
        )
        for number in range(rounds)
        for name, (ms, reference) in LAYERS.items()
    ]


def entry(found: list[Sample], why: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an entry of measurement.json."""
    result = figures.score(found, SITE_MS)
    assert result
    return {
        "variant": "best",
        "accepted": not why,
        "why": list(why),
        "correct": True,
        "checked": {"calls": 2 * len(found), "values": 10**9},
        "wrong": None,
        "fault": "",
        "error": 4e-7,
        **_plain(result),
        "layers": _plain(figures.layers(found, MHZ, {"conv1": 0.53}, {"conv1": 4e-7})),
        "samples": _plain(found),
    }


def measurement(*entries: dict[str, Any]) -> dict[str, Any]:
    """Return measurement.json as the judge writes it."""
    return {
        "version": 1,
        "milestone": "final",
        "class": "fp32",
        "architecture": "sm_90",
        "seed": "5f1c00a3",
        "gpu": {
            "name": "NVIDIA H200",
            "uuid": "GPU-82095478-1290-d9d1-497d-8291570c04b0",
            "driver": "580.159.04",
            "memory_bytes": 150754820096,
            "multiprocessors": 132,
            "sm_mhz_max": 1980.0,
        },
        "rates": {"copied_bytes_per_s": 4.2e12, "products_per_s": 0, "l2_bytes": 1},
        "began": "2026-11-22T19:30:00+00:00",
        "waited_s": 0.2,
        "held_s": 4.5,
        "celsius": [38.0, 41.0],
        "watts": [110.2, 210.9],
        "throttled": [],
        "others": 0,
        "entries": list(entries),
    }


def _plain(value: object) -> Any:
    return figures.plain(value)


ACCEPTED = entry(samples(Random(1)))


def refused(why: str, **more: object) -> dict[str, Any]:
    """Return an entry that is not accepted."""
    return {**ACCEPTED, "accepted": False, "why": [why], **more}


def read(*entries: dict[str, Any]) -> Measurement:
    """Return measurement.json of these entries, read."""
    return from_json(json.dumps(measurement(*entries)).encode())


def checked(**changed: Any) -> dict[str, Any]:
    """Return measurement.json of results that were checked on a CPU, and not timed."""
    entry = {
        "variant": "convolution",
        "accepted": True,
        "why": [],
        "correct": True,
        "checked": {"calls": 15, "values": 9016801},
        "wrong": None,
        "error": 0.3,
    }
    return {
        "version": 1,
        "milestone": "m2",
        "class": "fp32",
        "architecture": None,
        "seed": "93f75a99",
        "gpu": None,
        "entries": [entry | changed],
    }
