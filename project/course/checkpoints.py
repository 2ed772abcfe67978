"""The stored models: weights, and optional symbol files.

A model's weights are in ``<edition>-<model>.params``, or with MXNet's checkpoint names
in ``<edition>-<model>-<epoch>.params`` with ``<edition>-<model>-symbol.json``. They are
searched in RAI_MODELS_DIR, then in the project's ``models/``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from course import network, params, symbol
from course.editions import Edition, Model
from course.errors import NoWeightsError, ProjectError
from course.network import Network

MODELS = Path(__file__).resolve().parents[1] / "models"
VARIABLE = "RAI_MODELS_DIR"


def folders() -> Iterator[Path]:
    """Yield the folders to search for models, in order."""
    if named := os.environ.get(VARIABLE):
        folder = Path(named)
        if not folder.is_dir():
            raise ProjectError(
                f"{VARIABLE}: {named} is not a folder; unset it or correct it"
            )
        yield folder
    yield MODELS


def find(edition: Edition, name: str) -> Model:
    """Return a model by name; a symbol file of that name overrides the edition."""
    known = next((model for model in edition.models if model.name == name), None)
    path = _symbol(edition, name)
    if path is None:
        return known or edition.model(name)
    layers = symbol.loads(path.read_bytes(), str(path))
    if known and known.layers == layers:
        return known
    return Model(name, layers, known.published if known else {})


def is_given(network: Network) -> bool:
    """Return whether a network's weights came from RAI_MODELS_DIR."""
    return network.path is not None and network.path.parent != MODELS


def own_file(edition: Edition, model: Model) -> Path:
    """Return the file of the project's own weights for a model."""
    return MODELS / f"{edition.name}-{edition.weights_of(model).name}.params"


def load(edition: Edition, model: Model) -> Network:
    """Read a model's stored weights, its own before shared ones.

    Raises NoWeightsError.
    """
    for name in filter(None, (model.name, model.weights)):
        if (path := _weights(edition, name)) is not None:
            return network.assemble(edition, model, params.read(path), path=path)
    raise NoWeightsError(
        f"{own_file(edition, model)}: no stored weights; train them with "
        f"`{training_command(edition, model)}`"
    )


def training_command(edition: Edition, model: Model) -> str:
    """Return a command for a model's training that works in the current folder."""
    script = MODELS.parent / "train.py"
    if script.is_relative_to(Path.cwd()):
        script = script.relative_to(Path.cwd())
    names = ("--edition", edition.name, "--model", model.name)
    return shlex.join(["python", str(script), *names])


def _weights(edition: Edition, name: str) -> Path | None:
    """Return the latest epoch's file in the first folder that has one."""
    named = re.compile(re.escape(f"{edition.name}-{name}") + r"(-\d{4})?\.params")
    for folder in folders():
        found = [path for path in folder.glob("*.params") if named.fullmatch(path.name)]
        if found:
            return max(found)
    return None


def _symbol(edition: Edition, name: str) -> Path | None:
    paths = (place / f"{edition.name}-{name}-symbol.json" for place in folders())
    return next(filter(Path.is_file, paths), None)
