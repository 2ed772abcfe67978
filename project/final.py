"""The final: the whole network on the GPU, by the fastest kernel of the fp32 class.

python final.py [data size]
"""

import kernels
import milestone
from backends.cuda_gpu import CudaGpu
from device import Device


def main(size: int) -> None:
    """Classify the images, and say how long each convolution took."""
    variant = kernels.best(kernels.FP32)
    with Device() as device:
        images = milestone.load_images(size)
        ece408 = milestone.load_network("ece408")
        milestone.classify(ece408, images, CudaGpu(device, variant), variant.name)


if __name__ == "__main__":
    milestone.main(main)
