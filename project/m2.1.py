"""Milestone 2.1: the whole network on the CPU, by our own convolution.

python m2.1.py [model, in edition 2017fa] [data size]
"""

import milestone
from backends import host


def main(asked: milestone.Asked) -> None:
    """Classify the images, and say how long each convolution took."""
    backend, note = host.ours(asked.backend)
    milestone.load(asked).classify(backend, note)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=True, backends=host.NAMES))
