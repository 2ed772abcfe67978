"""Schemas of a store: made, upgraded, refused; on each database."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from runner.core.errors import ConfigError, RaiError
from runner.server import database
from runner.server.database import VERSION_TABLE, newest, open_store, revision_at
from runner.server.database.connections import Transactions
from runner.server.database.tables import metadata
from tests.server.database.conftest import BOTH

FIRST = (Path(__file__).parents[2] / "data/store-0003.sql").read_text()


@pytest.fixture(params=BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Name an empty database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{tmp_path}/store.sqlite"


def filled(url: str) -> None:
    """Make a store of the first schema, with data in every table."""
    ways = {"DOUBLE": "DOUBLE PRECISION", "BLOB": "BYTEA", "x'": "'\\x"}
    if url.startswith("sqlite"):
        ways = {"SERIAL": "INTEGER"}
    script = FIRST
    for word, own in ways.items():
        script = script.replace(word, own)
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    store = Transactions(url)
    with store.writing() as link:
        for statement in "\n".join(lines).split(";")[:-1]:
            link.exec_driver_sql(statement)
    store.close()


def together(opens: Callable[[], None]) -> None:
    with ThreadPoolExecutor(6) as pool:
        for one in [pool.submit(opens) for _ in range(6)]:
            one.result()


@pytest.mark.parametrize("make", [filled, lambda url: None], ids=["older", "empty"])
def test_every_store_has_the_newest_schema_once_though_several_open_it_at_once(
    url: str, make: Callable[[str], None]
):
    make(url)
    together(lambda: open_store(url).close())
    store = Transactions(url)
    with store.reading() as link:
        options = {"version_table": VERSION_TABLE, "compare_server_default": True}
        context = MigrationContext.configure(link, opts=options)
        assert compare_metadata(context, metadata) == []
        assert revision_at(link) == newest()
    store.close()


def test_an_older_store_gets_the_newest_schema_and_an_older_rai_refuses_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    filled(url)
    with monkeypatch.context() as newer:
        step = "op.add_column('teams', sa.Column('note', sa.Text))"
        later(tmp_path, newer, step)
        with pytest.raises(RaiError, match="older than this rai"):
            open_store(url, upgrade=False)
        together(lambda: open_store(url).close())
        store = open_store(url)
        assert [act.about for act in store.audited()] == ["red"]
        assert store.use("red", 0).bytes == 87
        store.close()
    with pytest.raises(RaiError, match="schema 9000, which is newer than this rai"):
        open_store(url)


def test_a_change_of_the_schema_that_fails_leaves_what_is_in_every_table(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    filled(url)
    with monkeypatch.context() as broken:
        steps = "op.drop_table('parcels'); op.execute('DROP TABLE nothing_such')"
        later(tmp_path, broken, steps)
        with pytest.raises(RaiError, match="nothing_such"):
            open_store(url)
    store = open_store(url)
    row = store.run("0123456789")
    assert row is not None
    assert (row.project, row.gpus, row.bytes) == ("net", 1, 77)
    assert row.parcel == b"{}"
    assert [(who.person, who.role) for who in store.people()] == [("ada", "staff")]
    assert [token.device for token in store.tokens("red", "ada")] == ["laptop"]
    assert store.upload("red", "55", 9.5) == 10
    assert (store.changes(), store.drained()) == (6, "why")
    assert store.use("red", 0).bytes == 87
    assert [act.about for act in store.audited()] == ["red"]
    store.close()


def later(folder: Path, patch: pytest.MonkeyPatch, body: str) -> None:
    """Make this rai one of a later schema."""
    migrations = folder / "migrations"
    shutil.copytree(database.MIGRATIONS, migrations)
    (migrations / "9000_later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision, down_revision = '9000', {newest()!r}\n"
        f"def upgrade():\n    {body}\n"
    )
    patch.setattr(database, "MIGRATIONS", migrations)


def test_a_database_of_others_is_refused(url: str):
    store = Transactions(url)
    with store.writing() as link:
        link.execute(text("CREATE TABLE invoices (id INTEGER)"))
    store.close()
    with pytest.raises(RaiError, match="tables that are not rai's, such as invoic"):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "cannot be read"),
        ("store.sqlite", "cannot be read"),
        ("mysql://ada:hunter2@host/rai", "cannot be on mysql: use sqlite or postgres"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("postgresql://ada:hunter2@host:port/rai", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_told(url: str, said: str):
    with pytest.raises(ConfigError, match=said) as told:
        open_store(url)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_postgresql_that_does_not_answer_is_told_without_its_password(
    scheme: str, tmp_path: Path
):
    pytest.importorskip("psycopg")
    with pytest.raises(RaiError, match="cannot be used") as told:
        open_store(f"{scheme}://ada:hunter2@/rai?host={tmp_path}")
    assert "postgresql://ada:***@/rai" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_a_file_that_is_no_store_is_told(tmp_path: Path):
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(RaiError, match="file is not a database"):
        open_store(f"sqlite:///{path}")
    with pytest.raises(RaiError, match=r"none/store\.sqlite: No such file"):
        open_store(f"sqlite:///{tmp_path}/none/store.sqlite")
