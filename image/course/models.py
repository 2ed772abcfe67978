"""Write the models of the image: /models/SIZE/NAME-symbol.json and NAME-EPOCH.params.

The newest edition's are in /models itself, too. Of editions without stored weights,
autumn 2018 takes those of autumn 2019, and a baseline takes those of `ece408`.

python models.py STORED FOLDER, with project/ on Python's path.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from course import params, symbol
from course.editions import EDITIONS
from course.graph import Convolution

Arrays = dict[str, np.ndarray]


def main(stored: Path, folder: Path) -> None:
    """Write every model; its convolutions are operator New, or MXNet's."""
    for edition in reversed(EDITIONS.values()):
        sized = folder / str(edition.size)
        sized.mkdir(parents=True)
        term = "2019fa" if edition.name == "2018fa" else edition.name
        for model in edition.models:
            named = edition.weights_of(model)
            if not (stored / f"{term}-{named.name}.params").exists():
                named = edition.model("ece408")
            arrays = params.read(stored / f"{term}-{named.name}.params")
            layers = [
                replace(layer, own=model.own)
                if isinstance(layer, Convolution)
                else layer
                for layer in named.layers
            ]
            text = sized / f"{model.name}-symbol.json"
            text.write_text(symbol.dumps(layers))
            file = sized / f"{model.name}-{1 if edition.names_model else 2:04}.params"
            params.write(file, arrays if term == edition.name else of_72_pixels(arrays))
            for path in text, file:
                if not (usual := folder / path.name).exists():
                    usual.symlink_to(path.relative_to(folder))


def of_72_pixels(arrays: Arrays) -> Arrays:
    """Convert weights for 70 x 70 pixels and K = 5 to 72 x 72 and K = 7.

    A ring of zeros around the kernels leaves out a ring of the images, and one of the
    second convolution's output, which is near 0 there.
    """
    ring = (0, 0), (0, 0), (1, 1), (1, 1)
    maps = arrays["fullyconnected0_weight"].reshape(160, 24, 29, 29)
    return {
        **arrays,
        "new0_weight": np.pad(arrays["new0_weight"], ring),
        "new1_weight": np.pad(arrays["new1_weight"], ring),
        "fullyconnected0_weight": maps[:, :, 1:-1, 1:-1].reshape(160, -1),
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
