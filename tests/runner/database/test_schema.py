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
from runner.database import store as opening
from runner.database.connections import VERSION_TABLE, Transactions
from runner.database.store import newest, open_store, revision_at
from runner.database.tables import metadata

ROWS = """
    INSERT INTO teams VALUES ('red', 'staff', 1.5);
    INSERT INTO people VALUES ('red', 'ada', 1.5);
    INSERT INTO codes VALUES ('red', 'ada', 'c0de', 9.5, NULL);
    INSERT INTO tokens VALUES
      ('abc', 'h4sh', 'red', 'ada', 'run staff', 'laptop', 2, NULL, 3, NULL);
    INSERT INTO uploads VALUES ('red', '55', 10, 2.5);
    INSERT INTO runs VALUES ('0123456789', 'red', 'ada', 'staff', 'd', '55',
      3.5, 'net', 'local', 1, 2, 'ended', 'well', 1, 4.5, 5.5, 'done', FALSE,
      NULL, 77, FALSE, 6);
    INSERT INTO parcels VALUES ('0123456789', BYTES, '');
    INSERT INTO team_bytes VALUES ('red', 77);
    INSERT INTO audit VALUES (1, 7.5, 'ada', 'invite', 'red');
    UPDATE server SET changes = 6, drained = 'why';
"""

"""Rows for every table; BYTES are `{}`."""


def filled(url: str) -> None:
    """Make a store with data in every table."""
    store = Transactions(url)
    some = "X'7b7d'" if url.startswith("sqlite") else "'\\x7b7d'"
    rows = ROWS.replace("BYTES", some)
    with store.writing() as link:
        opening.migrate(link)
        for statement in rows.strip().rstrip(";").split(";"):
            link.execute(text(statement))
    store.close()


def revision(url: str) -> str:
    store = Transactions(url)
    with store.reading() as link:
        found = revision_at(link)
    store.close()
    return found


def test_a_store_keeps_what_is_in_every_table(url: str):
    filled(url)
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


def test_the_tables_and_the_migrations_agree(url: str):
    store = open_store(url)
    with store.reading() as link:
        options = {"version_table": VERSION_TABLE, "compare_server_default": True}
        context = MigrationContext.configure(link, opts=options)
        assert compare_metadata(context, metadata) == []
    store.close()


def test_an_empty_store_is_made_at_the_newest_schema(url: str):
    assert revision(url) == ""
    open_store(url).close()
    assert revision(url) == newest()


def test_an_older_store_gets_the_newest_schema_and_keeps_all(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    filled(url)
    later(tmp_path, monkeypatch, "op.add_column('teams', sa.Column('note', sa.Text))")
    with pytest.raises(RaiError, match="older than this rai"):
        open_store(url, upgrade=False)
    together(lambda: open_store(url).close())
    assert revision(url) == newest() == "9000"
    store = open_store(url)
    assert [act.about for act in store.audited()] == ["red"]
    assert store.use("red", 0).bytes == 87
    store.close()


def test_a_newer_store_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as newer:
        later(tmp_path, newer, "pass")
        open_store(url).close()
    with pytest.raises(RaiError, match="schema 9000, which is newer than this rai"):
        open_store(url)
    assert revision(url) == "9000"


def test_a_change_of_the_schema_that_fails_changes_nothing(
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
    assert row.parcel == b"{}"
    store.close()


def later(folder: Path, patch: pytest.MonkeyPatch, body: str) -> None:
    """Make this rai one of a later schema."""
    migrations = folder / "migrations"
    shutil.copytree(opening.MIGRATIONS, migrations)
    (migrations / "versions" / "9000_later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision, down_revision = '9000', {newest()!r}\n"
        f"def upgrade():\n    {body}\n"
    )
    patch.setattr(opening, "MIGRATIONS", migrations)


def test_a_database_of_others_is_refused(url: str):
    store = Transactions(url)
    with store.writing() as link:
        link.execute(text("CREATE TABLE invoices (id INTEGER)"))
    store.close()
    with pytest.raises(RaiError, match="tables that are not rai's, such as invoic"):
        open_store(url)


def together(opens: Callable[[], None]) -> None:
    with ThreadPoolExecutor(6) as pool:
        for one in [pool.submit(opens) for _ in range(6)]:
            one.result()


def test_a_store_that_several_open_at_once_is_made_once(url: str):
    together(lambda: open_store(url).close())
    assert revision(url) == newest()


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
