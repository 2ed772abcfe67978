"""Milestone 4.1: the whole network on the GPU, once by each optimised kernel.

python m4.1.py [data size] [--variant NAME ...]
"""

import kernels
import milestone
from backends.cuda_gpu import CudaGpu
from device import Device


def main(words: list[str]) -> None:
    """Classify the images by each variant, and say how long its convolutions took."""
    named, others = milestone.variants(words)
    size, variants = milestone.data_size(others), kernels.select(named)
    with Device() as device:
        images = milestone.load_images(size)
        ece408 = milestone.load_network("ece408")
        for variant in variants:
            gpu = CudaGpu(device, variant)
            milestone.classify(ece408, images, gpu, variant.name)


if __name__ == "__main__":
    milestone.run(main)
