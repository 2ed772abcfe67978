"""Compare every backend's predictions with float64's, for every stored model.

The benchmark `agreement` runs it with the Python that RAI_BENCH_PYTHON names, such as
one that has MXNet. Answers are lines of JSON.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
# Here `milestones` is another module.
sys.path = [p for p in sys.path if Path(p).resolve() != HERE]
sys.path.insert(0, str(HERE.parents[1] / "project"))

from milestones import milestone  # imports cores before numpy

# isort: split
import numpy as np
from backends import Backend, gpu, host
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions
from course.arguments import MOST, count
from course.errors import MissingError, NoWeightsError, UsageError
from course.network import Inference, Network
from course.variants import FP32
from host import cpu_convolution
from milestones.milestone import Images, share
from plans.kernels import VARIANTS

TIE = 1e-5  # the difference of logits below which a prediction may differ
COUNTS = (100, 1000, 10_000)
ROUNDS = 3  # of each backend; Op Times are medians

Row = dict[str, Any]
Make = Callable[[Network, ExitStack], Backend]


def differing(gold: np.ndarray, found: np.ndarray) -> tuple[int, int]:
    """Return the number of images with different predictions, and of ties.

    Both arrays are probabilities, images x classes. The logarithm of the ratio of two
    probabilities is the difference of their logits.
    """
    best, other = gold.argmax(axis=1), found.argmax(axis=1)
    (rows,) = np.nonzero(best != other)
    with np.errstate(divide="ignore"):
        logits = np.log(gold[rows])
    gaps = logits[range(len(rows)), best[rows]] - logits[range(len(rows)), other[rows]]
    ties = int((gaps < TIE).sum())
    return len(rows) - ties, ties


def compared(
    network: Network,
    images: Images,
    gold: Inference,
    name: str,
    inferences: Sequence[Inference],
) -> Row:
    """Compare a backend's inferences, of which there may be several for Op Times."""
    assert network.path is not None
    times = zip(*(each.op_times_s for each in inferences), strict=True)
    found = inferences[-1]
    differs, ties = differing(gold.probabilities, found.probabilities)
    accuracy = {}
    if images.labels is not None:
        every = len(images.labels)
        counts = [n for n in COUNTS if n <= every] or [every]
        accuracy = {n: share(found.labels[:n], images.labels[:n]) for n in counts}
    return {
        "edition": network.edition.name,
        "model": network.model.name,
        "backend": name,
        "weights": network.path.name,
        "digest": sha256(network.path.read_bytes()).hexdigest(),
        "given": checkpoints.is_given(network),
        "images": len(images.pixels),
        "published": network.model.published.get(MOST),
        "accuracy": accuracy,
        "differs": differs,
        "ties": ties,
        "op_times_s": tuple(map(median, times)),
    }


def everywhere(network: Network, images: Images, named: list[str]) -> Iterator[Row]:
    """Yield a comparison of float64, then of the named or all available backends."""
    gold = NumpyCpu(dtype=np.float64).infer(network, images.pixels)
    yield compared(network, images, gold, "float64", [gold])
    for name in named or BACKENDS:
        with ExitStack() as opened:
            try:
                backend = BACKENDS[name](network, opened)
                found = [backend.infer(network, images.pixels) for _ in range(ROUNDS)]
            except (MissingError, UsageError) as error:
                if named and isinstance(error, MissingError):
                    raise
                print(f"skipping {name}: {error}", file=sys.stderr)
                continue
            yield compared(network, images, gold, name, found)


def _cpp(network: Network, opened: ExitStack) -> Backend:
    cpu_convolution.load()
    return NumpyCpu(cpu_convolution.convolve)


def _mxnet(network: Network, opened: ExitStack) -> Backend:
    return (host.ours if network.model.own else host.baseline)("mxnet")[0]


def _kernels(name: str) -> Make:
    def made(network: Network, opened: ExitStack) -> Backend:
        return opened.enter_context(gpu.opened())(VARIANTS[name])

    return made


BACKENDS: dict[str, Make] = {
    "numpy": lambda network, opened: NumpyCpu(),
    "c++": _cpp,
    "mxnet": _mxnet,
    "cudnn": lambda network, opened: opened.enter_context(gpu.cudnn()),
    **{f"cuda-{n}": _kernels(n) for n, v in VARIANTS.items() if v.accuracy == FP32},
}


def comparisons(wanted: argparse.Namespace) -> Iterator[Row]:
    """Compare every model with weights of the editions, or only those given."""
    for name in wanted.edition or editions.EDITIONS:
        edition = editions.edition(name)
        with redirect_stdout(sys.stderr):
            images = milestone.load_images(edition, wanted.images)
        for model in edition.models:
            try:
                found = checkpoints.find(edition, model.name)
                network = checkpoints.load(edition, found)
            except NoWeightsError as error:
                print(f"skipping {name} {model.name}: {error}", file=sys.stderr)
                continue
            if checkpoints.is_given(network) or not wanted.given:
                yield from everywhere(network, images, wanted.backend)


def main() -> None:
    """Print the comparisons."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--edition", action="append")
    add("--backend", action="append", choices=BACKENDS, default=[], metavar="NAME")
    add("--images", type=count, default=MOST)
    add("--given", action="store_true", help="only models in RAI_MODELS_DIR")
    for row in comparisons(parser.parse_args()):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    milestone.run(main)
