"""Compare every backend's predictions with float64's, for every stored model.

python agreement.py [--edition NAME ...] [--model NAME] [--backend NAME ...] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict, dataclass
from hashlib import sha256
from statistics import median

from milestones import milestone

# isort: split
# milestone imports cores before numpy.
import numpy as np
from backends import Backend, gpu, host
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions
from course.arguments import MOST, count, data_size
from course.editions import Edition, Model
from course.errors import MissingError, NoWeightsError, ProjectError, UsageError
from course.network import Inference, Network
from course.variants import FP32, Variant
from host import cpu_convolution
from milestones.milestone import Images, share
from plans.kernels import VARIANTS

TIE = 1e-5  # the difference of logits below which a prediction may differ
COUNTS = (100, 1000, 10_000)


@dataclass(frozen=True)
class Comparison:
    """A backend's predictions for a model, compared with float64's."""

    edition: str
    model: str
    backend: str
    weights: str  # the name of their file
    digest: str  # SHA-256 of it
    given: bool  # whether it came from RAI_MODELS_DIR
    images: int
    published: float | None  # accuracy of the course's weights on all test images
    accuracy: dict[int, float]  # by the number of first images
    differs: int  # predictions that differ from float64's, without ties
    ties: int  # differing predictions whose logits are within TIE in float64
    op_times_s: tuple[float, ...]  # medians

    def line(self) -> str:
        """Return a line of the table."""
        shares = "  ".join(f"{share:.4f}" for share in self.accuracy.values())
        times = " + ".join(f"{seconds:.4f}" for seconds in self.op_times_s)
        return (
            f"{self.edition}  {self.model:12} {self.backend:20} {shares}  "
            f"differs {self.differs}, ties {self.ties}  {times}"
        )


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
) -> Comparison:
    """Compare a backend's inferences, of which there may be several for Op Times."""
    times = zip(*(each.op_times_s for each in inferences), strict=True)
    found = inferences[-1]
    differs, ties = differing(gold.probabilities, found.probabilities)
    accuracy = {}
    if images.labels is not None:
        every = len(images.labels)
        counts = [n for n in COUNTS if n <= every] or [every]
        accuracy = {n: share(found.labels[:n], images.labels[:n]) for n in counts}
    assert network.path is not None
    return Comparison(
        network.edition.name,
        network.model.name,
        name,
        network.path.name,
        sha256(network.path.read_bytes()).hexdigest(),
        checkpoints.is_given(network),
        len(images.pixels),
        network.model.published.get(MOST),
        accuracy,
        differs,
        ties,
        tuple(map(median, times)),
    )


def everywhere(
    network: Network, images: Images, named: list[str] | None, rounds: int
) -> Iterator[Comparison]:
    """Yield a comparison of float64, then of the named or all available backends."""
    gold = NumpyCpu(dtype=np.float64).infer(network, images.pixels)
    yield compared(network, images, gold, "float64", [gold])
    for name in named or BACKENDS:
        with ExitStack() as opened:
            try:
                backend = BACKENDS[name](network.model, opened)
                found = [backend.infer(network, images.pixels) for _ in range(rounds)]
            except (MissingError, UsageError) as error:
                if named and isinstance(error, MissingError):
                    raise
                print(f"skipping {name}: {error}", file=sys.stderr)
                continue
            yield compared(network, images, gold, name, found)


def _numpy(model: Model, opened: ExitStack) -> Backend:
    return NumpyCpu()


def _cpp(model: Model, opened: ExitStack) -> Backend:
    cpu_convolution.load()
    return NumpyCpu(cpu_convolution.convolve)


def _mxnet(model: Model, opened: ExitStack) -> Backend:
    return (host.ours if model.own else host.baseline)("mxnet")[0]


def _cudnn(model: Model, opened: ExitStack) -> Backend:
    return opened.enter_context(gpu.cudnn())


def _on_gpu(variant: Variant) -> Callable[[Model, ExitStack], Backend]:
    def made(model: Model, opened: ExitStack) -> Backend:
        return opened.enter_context(gpu.opened())(variant)

    return made


BACKENDS: dict[str, Callable[[Model, ExitStack], Backend]] = {
    "numpy": _numpy,
    "c++": _cpp,
    "mxnet": _mxnet,
    "cudnn": _cudnn,
    **{
        f"cuda-{name}": _on_gpu(variant)
        for name, variant in VARIANTS.items()
        if variant.accuracy == FP32
    },
}
"""Backends by name."""


def _images(word: str) -> int:
    return data_size([word])


def chosen(edition: Edition, wanted: argparse.Namespace) -> Iterator[Network]:
    """Load the selected models of an edition; report those without weights."""
    named = [wanted.model] if wanted.model else [m.name for m in edition.models]
    for name in named:
        try:
            network = checkpoints.load(edition, checkpoints.find(edition, name))
        except (NoWeightsError, UsageError) as error:
            print(f"skipping {edition.name} {name}: {error}", file=sys.stderr)
            continue
        if checkpoints.is_given(network) or not wanted.given:
            yield network


def comparisons(wanted: argparse.Namespace) -> Iterator[Comparison]:
    """Compare every selected model of every selected edition."""
    for name in wanted.edition or editions.EDITIONS:
        edition = editions.edition(name)
        if networks := list(chosen(edition, wanted)):
            with redirect_stdout(sys.stderr):
                images = milestone.load_images(edition, wanted.images)
            for network in networks:
                yield from everywhere(network, images, wanted.backend, wanted.rounds)


def main() -> None:
    """Compare the selected models; exit with 0 if all predictions agree."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edition", action="append")
    parser.add_argument("--model")
    parser.add_argument("--backend", action="append", choices=BACKENDS, metavar="NAME")
    parser.add_argument("--images", type=_images, default=MOST)
    parser.add_argument(
        "--rounds", type=count, default=1, help="runs of each; Op Times are medians"
    )
    parser.add_argument(
        "--given", action="store_true", help="only models in RAI_MODELS_DIR"
    )
    parser.add_argument("--json", action="store_true", help="print lines of JSON")
    wanted = parser.parse_args()
    alike: list[bool] = []
    for row in comparisons(wanted):
        print(json.dumps(asdict(row)) if wanted.json else row.line(), flush=True)
        alike.append(row.differs == 0)
    if not alike:
        raise ProjectError("no model was compared: none of those selected has weights")
    sys.exit(0 if all(alike) else ProjectError.exit_code)


if __name__ == "__main__":
    milestone.run(main)
