"""The final: the whole network on the GPU, by the fastest kernel of the fp32 class.

python final.py [model, in edition 2017fa] [data size]
"""

import kernels
import milestone
from backends import gpu


def main(asked: milestone.Asked) -> None:
    """Classify the images, and say how long each convolution took."""
    variant = kernels.best(kernels.FP32)
    with gpu.opened(asked.backend) as backend_of:
        loaded = milestone.load(asked)
        loaded.classify(backend_of(variant), variant=variant.name)


if __name__ == "__main__":
    milestone.main(main, milestone.Accepts(__doc__, own=True, backends=gpu.NAMES))
