"""The interface of backends, which compute a network."""

from __future__ import annotations

from typing import Protocol

from course import cores  # noqa: F401

# isort: split
# The modules below import numpy, which must come after cores.
import numpy as np
from course.network import Inference, Network


class Backend(Protocol):
    """Something that runs a whole network."""

    name: str

    def infer(self, network: Network, images: np.ndarray) -> Inference:
        """Classify images of bytes, N x size x size.

        A backend may split them into pieces to bound its memory; the times of a
        convolution's pieces add up to its Op Time.
        """
