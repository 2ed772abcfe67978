"""What the milestones' scripts share: what they load, run and print."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cores  # noqa: F401

# isort: split
# From here on numpy is imported.
import asked
import checkpoints
import dataset
import synthetic
from asked import Accepts, Asked
from backends import Backend
from editions import Edition
from errors import GpuError, ProjectError, UsageError
from network import Inference, Network
from resize import resize
from variants import FP32

if TYPE_CHECKING:
    import numpy as np
    from variants import Variant

DECIMALS = 4


@dataclass(frozen=True)
class Images:
    """The first images of the test set, in the size of the edition."""

    pixels: np.ndarray
    labels: np.ndarray | None  # None: synthetic images, which are of nothing


@dataclass
class Milestone:
    """A network and images, to be run once or more."""

    network: Network
    images: Images
    announced: bool  # whether `New Inference` is printed already

    def infer(
        self, backend: Backend, note: str = "", variant: Variant | None = None
    ) -> Inference:
        """Run the network; what is to be known of the backend goes to stderr."""
        if not self.announced:
            print("New Inference", flush=True)
        self.announced = False
        if variant:
            print(f"Variant: {variant.name}", flush=True)
        say(note)
        found = backend.infer(self.network, self.images.pixels)
        say(found.note)
        return found

    def evaluate(self, backend: Backend, note: str = "") -> None:
        """Print the lines of the library's network: how many are classified rightly."""
        labels = self.infer(backend, note).labels
        print(accuracy(self.network, self.images, labels))

    def classify(
        self, backend: Backend, note: str = "", variant: Variant | None = None
    ) -> None:
        """Print the lines of our convolution's network, with its Op Times.

        Where they are of a class less exact than fp32, the last line says so.
        """
        found = self.infer(backend, note, variant)
        for seconds in found.op_times_s:
            print(f"Op Time: {seconds:f}")
        told = correctness(self.network, self.images, found.labels)
        if variant and variant.accuracy != FP32:
            told += f" Class: {variant.accuracy}"
        print(told, flush=True)


def main(script: Callable[[Asked], None], accepts: Accepts) -> None:
    """Run a script on what its command line asks for."""
    run(lambda: script(asked.read(accepts)))


def run(action: Callable[[], None]) -> None:
    """Do what a program is for; a mistake is one sentence and an exit status."""
    try:
        action()
    except BrokenPipeError:
        # Who reads our output has seen enough; Python would complain of the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ProjectError.exit_code)
    except (ProjectError, OSError) as error:
        say(str(error))
        code = getattr(error, "exit_code", ProjectError.exit_code)
        if isinstance(error, GpuError):
            # CUDA's library would complain of each thing that it cannot free now.
            sys.stdout.flush()
            os._exit(code)
        sys.exit(code)
    except KeyboardInterrupt:
        # Python still ends by the signal, as shells expect, after all is tidied up.
        sys.excepthook = lambda *_: None
        raise


def say(sentence: str | None) -> None:
    """Tell the user on stderr, in the script's name."""
    if sentence:
        print(f"{Path(sys.argv[0]).name}: {sentence}", file=sys.stderr, flush=True)


def load(wanted: Asked) -> Milestone:
    """Load images, then the model, in the lines and the order of the edition."""
    first = wanted.edition.inference_first
    if first:
        print("New Inference", flush=True)
    images = load_images(wanted.edition, wanted.size)
    with _loading("model"):
        network = checkpoints.load(wanted.edition, wanted.model)
    return Milestone(network, images, announced=first)


def load_images(edition: Edition, size: int) -> Images:
    """Read Fashion-MNIST, or where it cannot be had, make synthetic images."""
    real = dataset.available(dataset.TEST)
    with _loading("fashion-mnist data" if real else "synthetic data"):
        if real:
            images, labels = dataset.load(dataset.TEST)
        else:
            images, labels = synthetic.images(), None
        if size > len(images):
            raise UsageError(f"{size} images asked for; the set has {len(images)}")
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
    """Say what share of the images our convolution's network classifies rightly."""
    if images.labels is None:
        return _agreement(classified, found)
    return f"Correctness: {share(found, images.labels)} Model: {classified.model.name}"


def accuracy(classified: Network, images: Images, found: np.ndarray) -> str:
    """Say the same of the library's network, in the words of its evaluation."""
    if images.labels is None:
        return _agreement(classified, found)
    return f"EvalMetric: {{'accuracy': {share(found, images.labels)}}}"


def _agreement(classified: Network, found: np.ndarray) -> str:
    expected = synthetic.labels(classified, len(found))
    return (
        f"Agreement: {share(found, expected)} "
        f"Model: {classified.model.name} (synthetic)"
    )


def share(found: np.ndarray, expected: np.ndarray) -> float:
    """Say what share of the images is found as expected, in the course's decimals."""
    return round(float((found == expected).mean()), DECIMALS)
