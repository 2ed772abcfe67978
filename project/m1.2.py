"""Milestone 1.2: the whole network on the GPU, by the vendor's own convolution.

python m1.2.py [data size]
"""

import milestone
from backends import vendor


def main(asked: milestone.Asked) -> None:
    """Classify the images, and say how many rightly."""
    with vendor.cudnn() as backend:
        milestone.load(asked).evaluate(backend)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=False))
