"""Milestone 1.2: the whole network on the GPU, by the vendor's own convolution.

python m1.2.py [data size]
"""

import sys

import milestone
import network
from backends import vendor


def main(size: int) -> None:
    """Classify the images, and say how many rightly."""
    with vendor.cudnn() as backend:
        images = milestone.load_images(size)
        baseline = milestone.load_network("baseline")
        print("New Inference", flush=True)
        found = network.infer(baseline, images.pixels, backend)
        if found.note:
            print(f"m1.2.py: {found.note}", file=sys.stderr)
        print(milestone.accuracy(baseline, images, found.labels))


if __name__ == "__main__":
    milestone.main(main)
