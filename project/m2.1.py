"""Milestone 2.1: the whole network on the CPU, by our own convolution.

python m2.1.py [data size]
"""

import milestone
import network
import reference
from backends.numpy_cpu import NumpyCpu


def main(size: int) -> None:
    """Classify the images, and say how long each convolution took."""
    images = milestone.load_images(size)
    ece408 = milestone.load_network("ece408")
    print("New Inference", flush=True)
    found = network.infer(ece408, images.pixels, NumpyCpu(reference.convolve))
    for seconds in found.op_times_s:
        print(f"Op Time: {seconds:f}")
    print(milestone.correctness(ece408, images, found.labels))


if __name__ == "__main__":
    milestone.main(main)
