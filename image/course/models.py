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
from course.editions import EDITIONS, Edition, Model
from course.graph import Convolution, Layer

Arrays = dict[str, np.ndarray]


def main(stored: Path, folder: Path) -> None:
    """Write every model that has weights."""
    for edition in reversed(EDITIONS.values()):
        sized = folder / str(edition.size)
        sized.mkdir(parents=True)
        epoch = 1 if edition.names_model else 2
        for model in edition.models:
            own, arrays = weights(stored, edition, model)
            if not arrays:
                continue
            layers = [by(layer, own=model.own) for layer in own.layers]
            text = sized / f"{model.name}-symbol.json"
            text.write_text(symbol.dumps(layers))
            file = sized / f"{model.name}-{epoch:04}.params"
            params.write(file, arrays)
            for path in (text, file):
                if not (usual := folder / path.name).exists():
                    usual.symlink_to(path.relative_to(folder))


def weights(stored: Path, edition: Edition, model: Model) -> tuple[Model, Arrays]:
    """Return a model's weights, and the model that they are named by."""
    own = edition.weights_of(model)
    if edition.name == "2018fa":
        return own, of_72_pixels(params.read(stored / "2019fa-ece408.params"))
    path = stored / f"{edition.name}-{own.name}.params"
    if not path.exists() and not model.own:
        return weights(stored, edition, edition.model("ece408"))
    return own, params.read(path) if path.exists() else {}


def by(layer: Layer, *, own: bool) -> Layer:
    """Return a layer; a convolution as operator New, or as MXNet's."""
    return replace(layer, own=own) if isinstance(layer, Convolution) else layer


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
