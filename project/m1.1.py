"""Milestone 1.1: the whole network on the CPU, by the library's own convolution.

python m1.1.py [data size]
"""

import milestone
from backends import host


def main(asked: milestone.Asked) -> None:
    """Classify the images, and say how many rightly."""
    backend, note = host.baseline(asked.backend)
    milestone.load(asked).evaluate(backend, note)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=False, backends=host.NAMES))
