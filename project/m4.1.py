"""Milestone 4.1: run the network on the GPU once with each optimised kernel.

python m4.1.py [model, in edition 2017fa] [data size] [--variant NAME ...]
"""

from backends import gpu
from milestones import milestone
from plans import kernels


def main(arguments: milestone.Arguments) -> None:
    """Classify the images with each variant; print times and correctness."""
    variants = kernels.select(arguments.variants)
    with gpu.opened(arguments.backend) as backend_of:
        loaded = milestone.load(arguments)
        for variant in variants:
            loaded.classify(backend_of(variant), variant=variant)


if __name__ == "__main__":
    accepts = milestone.Accepts(__doc__, True, gpu.NAMES, variants=True)
    milestone.main(main, accepts)
