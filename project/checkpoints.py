"""The stored models: weights, and the symbol files that may come with them.

A model of an edition is ``<edition>-<model>.params``, or as MXNet names checkpoints,
``<edition>-<model>-<epoch>.params`` with ``<edition>-<model>-symbol.json``. They are
looked for in RAI_MODELS_DIR, then in the project's own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import network
import params
from editions import Edition, Model
from errors import ProjectError
from graph import Layers
from network import Network

MODELS = Path(__file__).resolve().parent / "models"
VARIABLE = "RAI_MODELS_DIR"


def folders() -> Iterator[Path]:
    """Say where models may lie, in the order of search."""
    if named := os.environ.get(VARIABLE):
        yield Path(named)
    yield MODELS


def find(edition: Edition, name: str) -> Model:
    """Find a model in the edition's table, else one that is stored with a symbol."""
    path = _symbol(edition, name)
    if path is None or any(model.name == name for model in edition.models):
        return edition.model(name)
    import symbol

    return Model(name, symbol.loads(path.read_text("utf-8"), str(path)))


def is_given(network: Network) -> bool:
    """Say whether a network's weights came from RAI_MODELS_DIR."""
    return network.path is not None and network.path.parent != MODELS


def own_file(edition: Edition, model: Model) -> Path:
    """Name the file of the project's own weights for a model."""
    return MODELS / f"{edition.name}-{edition.weights_of(model).name}.params"


def load(edition: Edition, model: Model) -> Network:
    """Read a model's stored weights, its own before those that it shares."""
    for name in filter(None, (model.name, model.weights)):
        if (path := _weights(edition, name)) is not None:
            text = _text(_symbol(edition, name)) if name == model.name else None
            if text is not None and _layers(text) != model.layers:
                raise ProjectError(
                    f"{_symbol(edition, name)}: not the layers of {edition.name} "
                    f"{model.name}; store it under a name of its own"
                )
            arrays = params.read(path)
            return network.assemble(edition, model, arrays, symbol=text, path=path)
    raise ProjectError(
        f"{own_file(edition, model)}: no such weights; train them with "
        f"`python train.py --edition {edition.name} --model {model.name}`"
    )


def _weights(edition: Edition, name: str) -> Path | None:
    """Find the latest weights in the first folder that has some."""
    named = re.compile(re.escape(f"{edition.name}-{name}") + r"(-\d{4})?\.params")
    for folder in folders():
        found = [path for path in folder.glob("*.params") if named.fullmatch(path.name)]
        if found:
            return max(found)
    return None


def _symbol(edition: Edition, name: str) -> Path | None:
    for folder in folders():
        path = folder / f"{edition.name}-{name}-symbol.json"
        if path.is_file():
            return path
    return None


def _text(path: Path | None) -> str | None:
    return path and path.read_text("utf-8")


def _layers(text: str) -> Layers:
    import symbol

    return symbol.loads(text)
