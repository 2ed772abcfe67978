"""Train a model's weights and store them in models/; needs the extra `train`.

The same seed, number of threads and version of PyTorch give the same weights.

python train.py [--edition 2019fa] [--model ece408] [--seed 408] [--epochs 12]
python train.py --synthetic-labels
"""

from __future__ import annotations

import argparse
import sys

import cores
import dataset
import editions
import network
import numpy as np
import params
import synthetic
from errors import ProjectError
from resize import resize


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--edition", default=editions.DEFAULT.name)
    parser.add_argument("--model", default="ece408")
    parser.add_argument("--seed", type=int, default=408)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=cores.COUNT)
    parser.add_argument(
        "--synthetic-labels",
        action="store_true",
        help="train nothing; only label the synthetic set again by the stored weights",
    )
    return parser.parse_args()


def train(asked: argparse.Namespace) -> None:
    """Train, store the weights, and say what they reach on the test images."""
    try:
        import torch
        import training
    except ModuleNotFoundError as error:
        raise ProjectError(f"{error}; install the extra `train`") from None

    edition = editions.edition(asked.edition)
    model = edition.weights_of(asked.model)
    torch.set_num_threads(asked.threads)
    images, labels = _images(dataset.TRAIN, edition)
    weights, held_out = training.train(
        edition, model, images, labels, asked.seed, asked.epochs
    )
    path = network.stored(edition, model)
    params.write(path, weights)
    print(f"{path}: {held_out:.4f} on the held-out images")
    test = training.accuracy(edition, model, weights, *_images(dataset.TEST, edition))
    print(f"{path}: {test:.4f} on the test images")


def _images(part: str, edition: editions.Edition) -> tuple[np.ndarray, np.ndarray]:
    images, labels = dataset.load(part)
    return resize(images, edition.size), labels


def main() -> None:
    """Train, or only label."""
    asked = arguments()
    try:
        if not asked.synthetic_labels:
            train(asked)
        edition = editions.edition(asked.edition)
        synthetic.write_labels(network.load(edition, asked.model))
    except ProjectError as error:
        print(f"train.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
