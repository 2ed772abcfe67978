"""Milestone 3.1: run the network on the GPU with the simplest kernel.

python m3.1.py [model, in edition 2017fa] [data size]
"""

from backends import gpu
from milestones import milestone
from plans.kernels import VARIANTS


def main(arguments: milestone.Arguments) -> None:
    """Classify the images; print each convolution's time and the correctness."""
    with gpu.opened(arguments.backend) as backend_of:
        milestone.load(arguments).classify(backend_of(VARIANTS["naive"]))


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=True, backends=gpu.NAMES))
