"""The final: the whole network on the GPU, by the fastest kernel of a class.

python final.py [model, in edition 2017fa] [data size] [--class fp32|tf32|half]
"""

import kernels
import milestone
from backends import gpu


def main(asked: milestone.Asked) -> None:
    """Classify the images, and say how long each convolution took."""
    variant = kernels.best(asked.accuracy)
    with gpu.opened(asked.backend) as backend_of:
        loaded = milestone.load(asked)
        loaded.classify(backend_of(variant), variant=variant)


if __name__ == "__main__":
    accepts = milestone.Accepts(__doc__, True, gpu.NAMES, classes=True)
    milestone.main(main, accepts)
