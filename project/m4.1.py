"""Milestone 4.1: the whole network on the GPU, once by each optimised kernel.

python m4.1.py [model, in edition 2017fa] [data size] [--variant NAME ...]
"""

import kernels
import milestone
from backends import gpu


def main(asked: milestone.Asked) -> None:
    """Classify the images by each variant, and say how long its convolutions took."""
    variants = kernels.select(asked.variants)
    with gpu.opened(asked.backend) as backend_of:
        loaded = milestone.load(asked)
        for variant in variants:
            loaded.classify(backend_of(variant), variant=variant)


if __name__ == "__main__":
    accepts = milestone.Accepts(__doc__, True, gpu.NAMES, variants=True)
    milestone.main(main, accepts)
