"""An empty store on each database; what a test asks of one it asks of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.server.database import Store, open_store

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name an empty database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path}/store.sqlite"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Open a new store."""
    store = open_store(url)
    yield store
    store.close()
