"""Milestone 1.1: run the network on the CPU with the library's convolution.

python m1.1.py [data size]
"""

from backends import host
from milestones import milestone


def main(arguments: milestone.Arguments) -> None:
    """Classify the images and print the accuracy."""
    backend, note = host.baseline(arguments.backend)
    milestone.load(arguments).evaluate(backend, note)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=False, backends=host.NAMES))
