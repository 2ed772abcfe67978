"""Milestone 3.1: the whole network on the GPU, by our simplest kernel.

python m3.1.py [data size]
"""

import milestone
from backends.cuda_gpu import CudaGpu
from device import Device
from kernels import VARIANTS


def main(size: int) -> None:
    """Classify the images, and say how long each convolution took."""
    with Device() as device:
        images = milestone.load_images(size)
        ece408 = milestone.load_network("ece408")
        milestone.classify(ece408, images, CudaGpu(device, VARIANTS["naive"]))


if __name__ == "__main__":
    milestone.main(main)
