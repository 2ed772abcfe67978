"""Milestone 2.1: the whole network on the CPU, by our own convolution.

python m2.1.py [data size]
"""

import milestone
import reference
from backends.numpy_cpu import NumpyCpu


def main(size: int) -> None:
    """Classify the images, and say how long each convolution took."""
    images = milestone.load_images(size)
    ece408 = milestone.load_network("ece408")
    milestone.classify(ece408, images, NumpyCpu(reference.convolve))


if __name__ == "__main__":
    milestone.main(main)
