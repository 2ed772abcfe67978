"""Milestone 1.2: run the network on the GPU with cuDNN's convolution.

python m1.2.py [data size]
"""

from backends import gpu
from milestones import milestone


def main(arguments: milestone.Arguments) -> None:
    """Classify the images and print the accuracy."""
    with gpu.cudnn() as backend:
        milestone.load(arguments).evaluate(backend)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=False))
