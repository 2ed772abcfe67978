"""Train a model and store its weights in models/; needs the extra `train`.

The same seed, number of threads and version of PyTorch give the same weights.

python train.py [--edition 2019fa] [--model ece408] [--seed 408] [--epochs 12]
"""

from __future__ import annotations

import argparse
import os

from course import cores

# isort: split
# The modules below import numpy, which must come after cores.
import numpy as np
from course import checkpoints, dataset, editions, network, params
from course.arguments import count
from course.editions import Edition, Model
from course.errors import MissingError, ProjectError
from course.network import Network
from course.resize import resize
from milestones import milestone, synthetic


def train(arguments: argparse.Namespace, edition: Edition, model: Model) -> Network:
    """Train a model, store its weights, and print their accuracy."""
    try:
        import torch
        from milestones import training
    except ModuleNotFoundError as error:
        raise MissingError(f"{error}; install the extra `train`") from None

    model = edition.weights_of(model)
    path = checkpoints.own_file(edition, model)
    if not os.access(path.parent, os.W_OK):
        raise ProjectError(
            f"{path.parent} is not writable; run train.py in your own project folder"
        )
    torch.set_num_threads(arguments.threads)
    images, labels = _images(dataset.TRAIN, edition)
    weights, held_out = training.train(
        edition, model, images, labels, arguments.seed, arguments.epochs
    )
    params.write(path, weights)
    print(f"{path}: {held_out:.4f} on the held-out images")
    test = training.accuracy(edition, model, weights, *_images(dataset.TEST, edition))
    print(f"{path}: {test:.4f} on the test images")
    return network.assemble(edition, model, weights, path=path)


def _images(part: str, edition: Edition) -> tuple[np.ndarray, np.ndarray]:
    images, labels = dataset.load(part)
    return resize(images, edition.size), labels


def main() -> None:
    """Train a model, then label the synthetic images with it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edition", help="(default: $RAI_EDITION, else 2019fa)")
    parser.add_argument(
        "--model", help="(default: the edition's first with our convolution)"
    )
    parser.add_argument("--seed", type=int, default=408)
    parser.add_argument("--epochs", type=count, default=12)
    parser.add_argument("--threads", type=count, default=cores.COUNT)
    arguments = parser.parse_args()
    edition = editions.edition(arguments.edition)
    first = edition.with_convolutions(own=True)[0]
    model = checkpoints.find(edition, arguments.model) if arguments.model else first
    synthetic.write_labels(train(arguments, edition, model))


if __name__ == "__main__":
    milestone.run(main)
