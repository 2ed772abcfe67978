"""Measure the whole forward pass on the GPU, ours and its steps against PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

import numpy as np
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions, program
from course.network import Network
from gpu.device import Device
from gpu.forward_gpu import ForwardPass
from lab import measurement
from lab.bench_gpu import Lab
from lab.measurement import Spread, Way

CHECKED = 500  # images compared with float64
MOST_ERROR = 1e-5  # the tolerance of a probability


def forward_rows(lab: Lab, pixels: np.ndarray) -> list[dict[str, object]]:
    """Check and time each implementation on the default network; return their rows.

    ``pixels`` are images of the default edition, N x size x size bytes.
    """
    edition = editions.DEFAULT
    network = checkpoints.load(edition, edition.with_convolutions(own=True)[0])
    right = NumpyCpu(dtype=np.float64).infer(network, pixels[:CHECKED]).probabilities
    ours, found, steps = _ours(lab.device, network, pixels)
    theirs, labels = _theirs(network, pixels) if lab.torch else ({}, None)
    rows = _rows(measurement.alternate({**ours, **theirs}, lab, measurement.FULL))
    for row in rows:
        if row["name"] in found:
            row |= verdict(found[str(row["name"])], right, labels)
    return rows + _rows(measurement.alternate(steps, lab, measurement.QUICK))


def _ours(
    device: Device, network: Network, pixels: np.ndarray
) -> tuple[dict[str, Way], dict[str, np.ndarray], dict[str, Way]]:
    ways: dict[str, Way] = {}
    found: dict[str, np.ndarray] = {}
    steps: dict[str, Way] = {}
    for name, fold in (("ours", False), ("ours, folded", True)):
        ahead = ForwardPass(device, network, len(pixels), fold=fold)
        ahead.prepare()
        ahead.put(pixels)
        ahead.run()
        found[name] = ahead.probabilities()
        ways[name] = ahead.run
        steps |= {f"{name}: {step}": way for step, way in ahead.steps().items()}
    return ways, found, steps


def _theirs(
    network: Network, pixels: np.ndarray
) -> tuple[dict[str, Way], np.ndarray | None]:
    from lab.forward_torch import TorchPass

    peer = TorchPass(network, pixels)
    ways: dict[str, Way] = {}
    labels = None
    for name, way in peer.ways().items():
        try:
            labels = way().argmax(dim=1).cpu().numpy()
        except Exception as error:  # such as torch.compile without a C compiler
            program.warn(f"{name}: {error}")
            continue
        ways[name] = way
    return ways, labels


def verdict(
    found: np.ndarray, right: np.ndarray, labels: np.ndarray | None
) -> dict[str, object]:
    """Compare probabilities with float64, and all predictions with PyTorch's."""
    few = found[: len(right)]
    error = float(np.abs(few - right).max())
    same = bool((few.argmax(axis=1) == right.argmax(axis=1)).all())
    row: dict[str, object] = {"error": error, "ok": same and error <= MOST_ERROR}
    if labels is not None:
        row["unlike_pytorch"] = int((found.argmax(axis=1) != labels).sum())
    return row


def _rows(spreads: Mapping[str, Spread]) -> list[dict[str, object]]:
    return [{"name": name, **asdict(spread)} for name, spread in spreads.items()]
