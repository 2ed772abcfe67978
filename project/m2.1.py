"""Milestone 2.1: run the network on the CPU with our own convolution.

python m2.1.py [model, in edition 2017fa] [data size]
"""

from backends import host
from milestones import milestone


def main(arguments: milestone.Arguments) -> None:
    """Classify the images; print each convolution's time and the correctness."""
    backend, note = host.ours(arguments.backend)
    milestone.load(arguments).classify(backend, note)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=True, backends=host.NAMES))
