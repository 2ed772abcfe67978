"""What the milestones' scripts share: their argument, their images, their lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cores  # noqa: F401  before what imports numpy
import dataset
import editions
import network
import synthetic
from backends import Array, Backend
from errors import GpuError, ProjectError, UsageError
from network import Network
from resize import resize

if TYPE_CHECKING:
    import numpy as np

EDITION = editions.DEFAULT
MOST = 10_000
DECIMALS = 4


@dataclass(frozen=True)
class Images:
    """The first images of the test set, in the size of the edition."""

    pixels: np.ndarray
    labels: np.ndarray | None  # None: synthetic images, which are of nothing


def main(script: Callable[[int], None]) -> None:
    """Run a script on the data size of its command line."""
    run(lambda words: script(data_size(words)))


def run(script: Callable[[list[str]], None]) -> None:
    """Run a script on the words of its command line; a mistake is one sentence."""
    try:
        script(sys.argv[1:])
    except (ProjectError, OSError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        code = getattr(error, "exit_code", ProjectError.exit_code)
        if isinstance(error, GpuError):
            # CUDA's library would complain of each thing that it cannot free now.
            sys.stdout.flush()
            os._exit(code)
        sys.exit(code)


def variants(words: list[str]) -> tuple[list[str], list[str]]:
    """Take ``--variant NAME``, as often as it stands, out of a command line."""
    named, others = [], []
    waiting = iter(words)
    for word in waiting:
        option, equals, name = word.partition("=")
        if option != "--variant":
            others.append(word)
        elif name := name if equals else next(waiting, ""):
            named.append(name)
        else:
            raise UsageError("--variant wants a name")
    return named, others


def data_size(arguments: list[str]) -> int:
    """Read how many images are asked for; all, when nothing is said."""
    if not arguments:
        return MOST
    text = " ".join(arguments)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise UsageError(
            f"`{text}` is no data size; expected one whole number from 1 to {MOST}"
        )
    return int(text)


def load_images(size: int) -> Images:
    """Read Fashion-MNIST, or where it cannot be had, make synthetic images."""
    real = dataset.available(dataset.TEST)
    with _loading("fashion-mnist data" if real else "synthetic data"):
        if real:
            images, labels = dataset.load(dataset.TEST)
        else:
            images, labels = synthetic.images(), None
        if size > len(images):
            raise UsageError(f"{size} images asked for; the set has {len(images)}")
        pixels = resize(images[:size], EDITION.size)
    return Images(pixels, None if labels is None else labels[:size])


def load_network(name: str) -> Network:
    """Read a model of the edition."""
    with _loading("model"):
        return network.load(EDITION, name)


def classify(
    classified: Network, images: Images, backend: Backend[Array], variant: str = ""
) -> None:
    """Classify the images; print the course's lines of an inference by our kernels."""
    print("New Inference", flush=True)
    if variant:
        print(f"Variant: {variant}", flush=True)
    found = network.infer(classified, images.pixels, backend)
    if found.note:
        print(f"{Path(sys.argv[0]).name}: {found.note}", file=sys.stderr)
    for seconds in found.op_times_s:
        print(f"Op Time: {seconds:f}")
    print(correctness(classified, images, found.labels), flush=True)


@contextmanager
def _loading(what: str) -> Iterator[None]:
    end = "\n"
    print(f"Loading {what}...", end="", flush=True)
    try:
        yield
        end = " done\n"
    finally:
        print(end=end, flush=True)


def correctness(classified: Network, images: Images, found: np.ndarray) -> str:
    """Say what share of the images our convolution's network classifies rightly."""
    if images.labels is None:
        return _agreement(classified, found)
    return f"Correctness: {_share(found, images.labels)} Model: {classified.model.name}"


def accuracy(classified: Network, images: Images, found: np.ndarray) -> str:
    """Say the same of the library's network, in the words of its evaluation."""
    if images.labels is None:
        return _agreement(classified, found)
    return f"EvalMetric: {{'accuracy': {_share(found, images.labels)}}}"


def _agreement(classified: Network, found: np.ndarray) -> str:
    expected = synthetic.labels(classified)[: len(found)]
    return (
        f"Agreement: {_share(found, expected)} "
        f"Model: {classified.model.name} (synthetic)"
    )


def _share(found: np.ndarray, expected: np.ndarray) -> float:
    return round(float((found == expected).mean()), DECIMALS)
