"""Final: run the network on the GPU with the fastest kernel of an accuracy class.

python final.py [model, in edition 2017fa] [data size] [--class fp32|tf32|half]
"""

from backends import gpu
from milestones import milestone
from plans import kernels


def main(arguments: milestone.Arguments) -> None:
    """Classify the images; print each convolution's time and the correctness."""
    variant = kernels.best(arguments.accuracy)
    with gpu.opened(arguments.backend) as backend_of:
        loaded = milestone.load(arguments)
        loaded.classify(backend_of(variant), variant=variant)


if __name__ == "__main__":
    accepts = milestone.Accepts(__doc__, True, gpu.NAMES, classes=True)
    milestone.main(main, accepts)
