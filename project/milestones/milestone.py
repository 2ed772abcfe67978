"""What the milestones' scripts share: loading, running and printing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course import cores  # noqa: F401

# isort: split
# The modules below import numpy, which must come after cores.
from backends import Backend
from course import arguments, checkpoints, dataset
from course.arguments import Accepts, Arguments
from course.editions import Edition
from course.errors import UsageError
from course.network import Inference, Network
from course.program import run, warn
from course.resize import resize
from course.variants import FP32
from milestones import kernel_shapes, synthetic

if TYPE_CHECKING:
    import numpy as np
    from course.variants import Variant

DECIMALS = 4


@dataclass(frozen=True)
class Images:
    """The first images of the test set, resized for the edition."""

    pixels: np.ndarray
    labels: np.ndarray | None  # None for synthetic images


@dataclass
class Milestone:
    """A network and the images to run it on."""

    network: Network
    images: Images
    announced: bool  # `New Inference` has been printed

    def infer(
        self, backend: Backend, note: str = "", variant: Variant | None = None
    ) -> Inference:
        """Run the network; print notes on the backend to stderr."""
        if not self.announced:
            print("New Inference", flush=True)
        self.announced = False
        if variant:
            print(f"Variant: {variant.name}", flush=True)
        warn(note)
        found = backend.infer(self.network, self.images.pixels)
        warn(found.note)
        return found

    def evaluate(self, backend: Backend, note: str = "") -> None:
        """Run the library's network and print its accuracy."""
        found = self.infer(backend, note)
        print(accuracy(self.network, self.images, found.labels), flush=True)
        self._describe(found)

    def classify(
        self, backend: Backend, note: str = "", variant: Variant | None = None
    ) -> None:
        """Run the network of our own convolution; print its Op Times and correctness.

        The last line names the accuracy class unless it is fp32.
        """
        found = self.infer(backend, note, variant)
        for seconds in found.op_times_s:
            print(f"Op Time: {seconds:f}")
        line = correctness(self.network, self.images, found.labels)
        if variant and variant.accuracy != FP32:
            line += f" Class: {variant.accuracy}"
        print(line, flush=True)
        self._describe(found)

    def _describe(self, found: Inference) -> None:
        """In a run of rai, write down what the layers and kernels had to do."""
        if folder := kernel_shapes.folder():
            images = len(self.images.pixels)
            kernel_shapes.add(folder, sys.argv, self.network, images, found)


def main(script: Callable[[Arguments], None], accepts: Accepts) -> None:
    """Parse the command line and run a script."""
    run(lambda: script(arguments.read(accepts)))


def load(arguments: Arguments) -> Milestone:
    """Load images, then the model; print the edition's lines in its order."""
    first = arguments.edition.inference_first
    if first:
        print("New Inference", flush=True)
    images = load_images(arguments.edition, arguments.size)
    with _loading("model"):
        network = checkpoints.load(arguments.edition, arguments.model)
    return Milestone(network, images, announced=first)


def load_images(edition: Edition, size: int) -> Images:
    """Read Fashion-MNIST, or make synthetic images where it is missing."""
    real = dataset.available(dataset.TEST)
    with _loading("fashion-mnist data" if real else "synthetic data"):
        if real:
            images, labels = dataset.load(dataset.TEST)
        else:
            images, labels = synthetic.images(), None
        if size > len(images):
            raise UsageError(
                f"data size {size} is too large: the test set has {len(images)} images"
            )
        pixels = resize(images[:size], edition.size)
    return Images(pixels, None if labels is None else labels[:size])


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
    """Return the line with the share of images that are classified correctly."""
    name = classified.model.name
    if images.labels is None:
        agree = share(found, synthetic.labels(classified, len(found)))
        return f"Agreement: {agree} Model: {name} (synthetic)"
    return f"Correctness: {share(found, images.labels)} Model: {name}"


def accuracy(classified: Network, images: Images, found: np.ndarray) -> str:
    """Return that share in the format of MXNet's evaluation metric."""
    if images.labels is None:
        return correctness(classified, images, found)
    return f"EvalMetric: {{'accuracy': {share(found, images.labels)}}}"


def share(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the share of equal labels, rounded as the course does."""
    return round(float((found == expected).mean()), DECIMALS)
