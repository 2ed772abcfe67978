"""Data files by name and checksum: found on this machine, else downloaded."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from runner.events import Event
from runner.model import DataMount, DataResource


@dataclass(frozen=True, slots=True)
class DataPlaces:
    """Where to look: $RAI_DATA_DIR, the project (its ``data/``), the user's cache."""

    data_dir: Path | None
    project: Path
    cache: Path


def resolve(
    resources: tuple[DataResource, ...], places: DataPlaces, *, download: bool = True
) -> Generator[Event, None, tuple[DataMount, ...]]:
    """Find or download each file; return the mounts, one a directory.

    Yields DataReady or DataMissing for each resource, Warned, and Progress while it
    downloads. A file that cannot be had is an event, never an exception.
    """
    raise NotImplementedError
    yield
