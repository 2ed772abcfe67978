"""Backups: whole or not there, of one moment, and restored by copying them back."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest
from msgspec.structs import replace

from runner.core.errors import RaiError, UsageError
from runner.server import upkeep
from runner.server.database import Store, open_store
from runner.server.paths import ServerFolder, upload_path
from tests.kit import postgres
from tests.kit.store_rows import NOW, new_store, run, token
from tests.server.database import test_submissions as submissions


def served(root: Path, url: str = "") -> tuple[ServerFolder, Store, str]:
    """Make the folder of a server with a person, a token, runs and a submission."""
    folder = ServerFolder(root)
    folder.key.parent.mkdir(parents=True)
    for path in (folder.rules, folder.certificate, folder.key):
        path.write_text(path.name)
        path.chmod(0o600)
    store = open_store(url) if url else new_store(root, Store)
    kept = token(store)
    made = submissions.add(store, "key", sha256="sent")[0]
    store.judge(made, replace(made, reason=None, ended_at=NOW))
    for name in ("waits", "runs", "ended", "sent"):
        store.add_run(run(name, sha256=name))
        path = upload_path(folder.uploads, "red", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    store.claim("runs", 0)
    store.started("runs", NOW)
    for name in ("ended", "sent"):
        store.ended(name, NOW, None)
    return folder, store, kept


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_it_is_laid_out_as_the_folder_and_has_what_cannot_be_made_again(tmp_path):
    folder, store, kept = served(tmp_path / "state")
    site = tmp_path / "site"
    site.mkdir()
    (site / "m9.yml").write_text("name: m9")
    into = tmp_path / "kept"
    assert upkeep.backup(folder, store, [site], into) == ("", [])
    store.close()
    kept_names = ["waits", "runs", "sent"]
    uploads = [upload_path(into / "uploads", "red", name) for name in kept_names]
    assert names(into) == {
        *("store.sqlite", "server.yml", "tls/certificate.pem", "tls/key.pem"),
        *(str(path.relative_to(into)) for path in uploads),
        f"milestones{site}/m9.yml",
    }
    assert [path.read_text() for path in uploads] == kept_names
    assert into.stat().st_mode & 0o777 == 0o700
    for path in (into / "store.sqlite", into / "tls" / "key.pem"):
        assert path.stat().st_mode & 0o777 == 0o600
    shutil.copytree(into, tmp_path / "again")
    with closing(open_store(f"sqlite:///{tmp_path}/again/store.sqlite")) as again:
        assert again.identify(kept, NOW) is not None
        assert {row.id for row in again.unfinished()} == {"waits", "runs"}


def test_it_is_of_one_moment_while_others_write(tmp_path):
    """Each run is added before its act, so no backup has more acts than runs."""
    folder, store, _ = served(tmp_path / "state")
    stop, written = Event(), 0

    def writes() -> None:
        nonlocal written
        while not stop.is_set():
            store.add_run(run(f"{written:010}"))
            store.drain(str(written))
            written += 1

    writer = Thread(target=writes)
    writer.start()
    try:
        for number in range(5):
            before = written
            upkeep.backup(folder, store, [], tmp_path / str(number))
            file = tmp_path / str(number) / "store.sqlite"
            with closing(open_store(f"sqlite:///{file}")) as again:
                runs = len(again.unfinished()) - 2
                assert before <= runs <= written + 1
                assert runs - 1 - int(again.drained() or -1) in (0, 1)
    finally:
        stop.set()
        writer.join()
        store.close()


def test_one_that_cannot_be_made_leaves_nothing(tmp_path):
    folder, store, _ = served(tmp_path / "state")
    before = names(tmp_path)
    with pytest.raises(UsageError, match="is there already"):
        upkeep.backup(folder, store, [], tmp_path / "state")
    with pytest.raises(RaiError, match="No such file"):
        upkeep.backup(folder, store, [], tmp_path / "none" / "kept")
    assert names(tmp_path) == before
    part = tmp_path / ".kept.part"
    part.mkdir()  # of one that was killed
    assert upkeep.backup(folder, store, [], tmp_path / "kept") == ("", [])
    assert not part.exists()
    store.close()


def test_a_bad_folder_of_milestones_is_named_and_the_rest_is_there(tmp_path):
    folder, store, _ = served(tmp_path / "state")
    odd, gone, well = (tmp_path / name for name in ("odd", "gone", "well"))
    for site in (odd, well):
        site.mkdir()
        (site / "m9.yml").write_text("name: m9")
    os.mkfifo(odd / "pipe")
    into = tmp_path / "kept"
    command, problems = upkeep.backup(folder, store, [odd, gone, well], into)
    store.close()
    assert command == ""
    told = [(str(odd), "named pipe"), (str(gone), "No such file")]
    for problem, words in zip(problems, told, strict=True):
        assert all(word in problem.message for word in words)
        assert str(into) in problem.hint
    copied = {f"milestones{site}/m9.yml" for site in (odd, well)}
    assert {"store.sqlite", "server.yml", *copied} <= names(into)


@pytest.mark.postgresql
def test_of_postgresql_it_says_the_command_that_copies_the_store(
    tmp_path, postgresql_server
):
    where = postgres.programs()
    assert where is not None
    into = tmp_path / "a backup"
    with (
        postgres.database(postgresql_server) as url,
        postgres.database(postgresql_server) as other,
    ):
        folder, store, _ = served(tmp_path / "state", url)
        command, _ = upkeep.backup(folder, store, [], into)
        environ = {**os.environ, "PATH": f"{where}:{os.environ['PATH']}"}
        for line, named in (
            (command, url.replace("postgresql:", "postgresql+psycopg:")),
            (
                f"pg_restore --no-owner '{into}/store.pgdump'"
                ' --dbname "postgresql:${RAI_DATABASE_URL#*:}"',
                other,
            ),
        ):
            subprocess.run(
                ["sh", "-c", line],
                env={**environ, "RAI_DATABASE_URL": named},
                check=True,
            )
        assert not (into / "store.sqlite").exists()
        assert upload_path(into / "uploads", "red", "waits").exists()
        with closing(open_store(other)) as again:
            assert again.people() == store.people()
            assert again.tokens() == store.tokens()
            assert again.unfinished() == store.unfinished()
        store.close()
