"""An empty store on each database; what a test asks of one it asks of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.server.database import Store, open_store
from tests.kit import postgres
from tests.kit.store_rows import empty_file

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(scope="session")
def template(postgresql_server: str) -> Iterator[str]:
    """Name a database of PostgreSQL with an empty store, to make others of."""
    with postgres.database(postgresql_server) as url:
        open_store(url).close()
        yield url.partition("?")[0].rpartition("/")[2]


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Name a database with an empty store."""
    if request.param == "postgresql":
        server, template = map(
            request.getfixturevalue, ("postgresql_server", "template")
        )
        with postgres.database(server, f'TEMPLATE "{template}"') as made:
            yield made
    else:
        (tmp_path / "store.sqlite").write_bytes(empty_file())
        yield f"sqlite:///{tmp_path}/store.sqlite"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """Open a new store."""
    store = open_store(url)
    yield store
    store.close()
