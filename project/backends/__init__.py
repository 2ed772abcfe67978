"""The seam between a network and what computes it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from network import Inference, Network


class Backend(Protocol):
    """Something that runs a whole network."""

    name: str

    def infer(self, network: Network, images: np.ndarray) -> Inference:
        """Classify images of bytes, N x size x size.

        They may go in pieces, so that memory stays bounded; the pieces of a
        convolution add up to its one Op Time.
        """
