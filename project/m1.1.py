"""Milestone 1.1: the whole network on the CPU, by the library's own convolution.

python m1.1.py [data size]
"""

import milestone
import network
from backends.numpy_cpu import NumpyCpu


def main(size: int) -> None:
    """Classify the images, and say how many rightly."""
    images = milestone.load_images(size)
    baseline = milestone.load_network("baseline")
    print("New Inference", flush=True)
    found = network.infer(baseline, images.pixels, NumpyCpu())
    print(milestone.accuracy(baseline, images, found.labels))


if __name__ == "__main__":
    milestone.main(main)
