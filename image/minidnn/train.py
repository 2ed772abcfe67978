"""Train the weights of the image `minidnn`; needs the extra `train`.

    PYTHONPATH=project python image/minidnn/train.py FILE

The images are Fashion-MNIST's (project/course/dataset.py says where they may be). The
same version of PyTorch gives the same weights, in the course's format.
"""

import sys
from pathlib import Path

from course import dataset
from course.resize import resize

# isort: split
import numpy as np
import torch
from milestones import training
from torch import nn

SIZE, EPOCHS, SEED = 86, 4, 408

torch.manual_seed(SEED)
net = nn.Sequential(
    *(nn.Conv2d(1, 4, 7, bias=False), nn.ReLU(), nn.MaxPool2d(2)),
    *(nn.Conv2d(4, 16, 7, bias=False), nn.ReLU(), nn.MaxPool2d(4, ceil_mode=True)),
    *(nn.Flatten(), nn.Linear(1296, 32), nn.ReLU(), nn.Linear(32, 10)),
)
images, labels = dataset.load(dataset.TRAIN)
images = resize(images, SIZE)
for _ in training.fit(net, images, labels, np.arange(len(images)), EPOCHS):
    pass

# The number of layers, softmax being one more, then of each that of its parameters and
# these. The course's convolutions have a bias, which its programs do not add.
words = [np.int32(len(net)).tobytes()]
for layer in (each for each in net if not isinstance(each, nn.Flatten)):
    arrays = [each.detach().numpy() for each in layer.parameters()]
    if isinstance(layer, nn.Conv2d):
        arrays.append(np.zeros(layer.out_channels, np.float32))
        arrays[0] /= training.WHITE if layer is net[0] else 1  # pixels are 0 to 255
    words.append(np.int32(sum(array.size for array in arrays)).tobytes())
    words += [array.astype("<f4").tobytes() for array in arrays]
words.append(np.int32(0).tobytes())
Path(sys.argv[1]).write_bytes(b"".join(words))
