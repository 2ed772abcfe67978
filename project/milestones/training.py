"""Training by PyTorch on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod

import numpy as np
import torch
from backends.layerwise import pooled_first
from backends.numpy_cpu import NumpyCpu
from course import graph, network
from course.editions import Edition, Model
from course.graph import Convolution, Dense, Flatten, Pooling, Tanh
from torch import Tensor, nn
from torch.nn import functional

BATCH = 128
HELD_OUT = 5000  # images of the validation set, which selects the epoch
PEAK_RATE = 1e-3
DECAY = 0.01
DROPPED = 0.3  # dropout probability before the last layer
WHITE = 255.0

Weights = dict[str, np.ndarray]


def train(
    edition: Edition,
    model: Model,
    images: np.ndarray,
    labels: np.ndarray,
    seed: int,
    epochs: int,
) -> tuple[Weights, float]:
    """Return the best weights, in half precision, and their held-out accuracy.

    The best epoch is the one with the highest held-out accuracy. A model with a
    ``no_better_than`` stops after the first batch that reaches that accuracy.
    """
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    order = torch.randperm(len(images)).numpy()
    held, rest = order[:HELD_OUT], order[HELD_OUT:]
    net = build(edition, model).to(memory_format=torch.channels_last)
    best, best_accuracy = stored_weights(net, edition, model), -1.0
    batches = len(rest) // BATCH
    for done in fit(net, images, labels, rest, epochs):
        epoch, left = divmod(done, batches)
        if left and model.no_better_than is None:
            continue
        weights = stored_weights(net, edition, model)
        found = accuracy(edition, model, weights, images[held], labels[held])
        if not left:
            line = f"epoch {epoch}/{epochs}: {found:.4f} on the held-out images"
            print(line, file=sys.stderr, flush=True)
        if found > best_accuracy:
            best, best_accuracy = weights, found
        if model.no_better_than is not None and found >= model.no_better_than:
            break
    return best, best_accuracy


def build(edition: Edition, model: Model) -> nn.Sequential:
    """Build the network, with dropout before the last layer."""
    built: list[nn.Module] = []
    steps = list(graph.steps(pooled_first(model.layers), edition.size))
    last = max(n for n, step in enumerate(steps) if isinstance(step.layer, Dense))
    for n, step in enumerate(steps):
        match step.layer:
            case Convolution(maps=maps, kernel=kernel):
                built.append(nn.Conv2d(step.x[0], maps, kernel, bias=False))
            case Pooling():
                built.append(nn.MaxPool2d(2))
            case Tanh():
                built.append(nn.Tanh())
            case Flatten():
                built.append(nn.Flatten())
            case Dense(outputs=outputs):
                built += [nn.Dropout(DROPPED)] if n == last else []
                built += [nn.Linear(prod(step.x), outputs)]
    return nn.Sequential(*built)


def stored_weights(net: nn.Module, edition: Edition, model: Model) -> Weights:
    """Return the weights in half precision, for pixels from 0 to 255."""
    names = network.shapes(edition, model)
    arrays = [tensor.detach().numpy().copy() for tensor in net.parameters()]
    arrays[0] /= WHITE  # it is trained on pixels from 0 to 1
    return {
        name: array.astype(np.float16)
        for name, array in zip(names, arrays, strict=True)
    }


def accuracy(
    edition: Edition,
    model: Model,
    weights: Weights,
    images: np.ndarray,
    labels: np.ndarray,
) -> float:
    """Return the accuracy of stored weights in NumPy's forward pass."""
    built = network.assemble(edition, model, weights)
    found = NumpyCpu().infer(built, images).labels
    return float((found == labels).mean())


def fit(
    net: nn.Module,
    images: np.ndarray,
    labels: np.ndarray,
    chosen: np.ndarray,
    epochs: int,
) -> Iterator[int]:
    """Fit the network; yield the number of batches done after each one."""
    batches = len(chosen) // BATCH
    optimizer = torch.optim.AdamW(
        net.parameters(), PEAK_RATE, weight_decay=DECAY, fused=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, PEAK_RATE, total_steps=epochs * batches
    )
    for epoch in range(1, epochs + 1):
        order = chosen[torch.randperm(len(chosen)).numpy()]
        for batch in range(batches):
            part = order[batch * BATCH : (batch + 1) * BATCH]
            scores = net(mirrored(pixels(images[part])))
            classes = torch.from_numpy(labels[part].astype(np.int64))
            loss = functional.cross_entropy(scores, classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            yield (epoch - 1) * batches + batch + 1


def pixels(images: np.ndarray) -> Tensor:
    """Convert images of bytes to floats from 0 to 1, in one channel."""
    tensor = torch.from_numpy(images[:, np.newaxis]).float() / WHITE
    return tensor.contiguous(memory_format=torch.channels_last)


def mirrored(images: Tensor) -> Tensor:
    """Mirror half of the batches left to right, to augment the data."""
    return images.flip(3) if torch.rand(()) < 0.5 else images
