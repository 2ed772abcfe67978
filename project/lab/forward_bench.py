"""Measure the whole forward pass on the GPU, ours in turns with PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from course import checkpoints, editions
from course.errors import UsageError
from gpu.forward_gpu import ForwardPass
from lab import measurement
from lab.bench_gpu import Lab
from lab.ledger import Row
from lab.measurement import Way

MOST_ERROR = 1e-5  # the tolerance of a probability
FEW = 1000  # images up to which CUDA graphs are timed too


def rows(lab: Lab, pixels: np.ndarray) -> Iterator[Row]:
    """Check and time each implementation on the default network; yield ours.

    ``pixels`` are images of the default edition, N x size x size bytes. All
    probabilities are compared with float64 before and after. Raises UsageError.
    """
    if lab.torch is None:
        raise UsageError("the forward pass is compared with PyTorch, which is missing")
    from lab.forward_torch import TorchPass

    edition, graphs = editions.DEFAULT, len(pixels) <= FEW
    network = checkpoints.load(edition, edition.with_convolutions(own=True)[0])
    theirs = TorchPass(network, pixels)
    right = theirs.exact()
    ours: dict[str, tuple[ForwardPass, Way]] = {}
    for name, fold in (("ours", False), ("ours, folded", True)):
        ahead = ForwardPass(lab.device, network, len(pixels), fold=fold)
        ahead.prepare()
        ahead.put(pixels)
        ours[name] = ahead, ahead.run
        if graphs:
            ours[f"{name}, graph"] = ahead, lab.device.recorded(ahead.run)

    def errors() -> dict[str, float]:
        return {name: _error(lab, *each, right) for name, each in ours.items()}

    before = errors()
    peers = dict(theirs.ways(graphs=graphs))
    ways = {name: way for name, (_, way) in ours.items()}
    times = measurement.alternate({**ways, **peers}, lab.sample, measurement.FULL)
    fastest = {name: times[name] for name in peers}
    for name, after in errors().items():
        error = max(before[name], after)
        row: Row = {"variant": name, "ok": error <= MOST_ERROR, "why": None}
        row["error"] = measurement.short(error)
        if row["ok"]:
            row |= times[name].figures() | measurement.compared(times[name], fastest)
        else:
            row["why"] = "the result differs from float64"
        yield row


def _error(lab: Lab, ahead: ForwardPass, way: Way, right: np.ndarray) -> float:
    """Return the largest error of a probability; 1 for what is not written."""
    lab.device.fill(ahead.arrays["y"], 255)
    way()
    return float(np.nan_to_num(np.abs(ahead.probabilities() - right), nan=1).max())
