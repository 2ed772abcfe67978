import gzip

import numpy


def load_mnist(path, rows, cols, kind):
    """Read a part of Fashion-MNIST, as the course's scripts of 2018 and 2019 do."""
    with gzip.open(path + "/" + kind + "-labels-idx1-ubyte.gz", "rb") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    with gzip.open(path + "/" + kind + "-images-idx3-ubyte.gz", "rb") as file:
        pixels = numpy.frombuffer(file.read(), numpy.uint8, offset=16)
    return pixels.reshape(len(labels), 1, rows, cols), labels
