"""Milestone 3.1: the whole network on the GPU, by our simplest kernel.

python m3.1.py [model, in edition 2017fa] [data size]
"""

import milestone
from backends import gpu
from kernels import VARIANTS


def main(asked: milestone.Asked) -> None:
    """Classify the images, and say how long each convolution took."""
    with gpu.opened(asked.backend) as backend_of:
        milestone.load(asked).classify(backend_of(VARIANTS["naive"]))


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=True, backends=gpu.NAMES))
