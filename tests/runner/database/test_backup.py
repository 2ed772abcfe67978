"""Backups: whole, of one moment, from one database to the other, never half."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from runner.archive.compressed import zstd
from runner.core.ending import Reason
from runner.core.errors import RaiError
from runner.database import schema
from runner.database.backup import backup
from runner.database.backup_lines import NUMBERED
from runner.database.base import AuditEntry, Invitation, Store
from runner.database.opening import open_store
from runner.database.restoring import restore
from runner.database.tables import metadata
from tests.runner.database.rows import DAY_S, NOW, run, token, upload
from tests.runner.database.test_schema import filled, later

Lines = list[Any]


def fill(store: Store) -> str:
    """Put something of everything into a store; return a token that is valid."""
    kept = token(store, "red", "ada", "staff")
    store.invite([Invitation("blue", "eve \u2731 \U0001f600")], NOW, DAY_S)
    store.add_upload(upload(size=1 << 40, offset=7))
    for number in range(30):
        store.add_run(run(f"{number:02}", parcel=bytes(range(256)) * number))
    for number in range(0, 30, 3):
        store.claim(f"{number:02}", 0)
        store.started(f"{number:02}", NOW + 1 / 3)
    for number in range(0, 30, 6):
        store.ended(f"{number:02}", NOW + 2, Reason.TIME_LIMIT, "slow", 1 << 33)
    store.ask_cancel("01", NOW, "no more")
    for number in range(12):
        store.audit(AuditEntry(NOW - number, "ada", f"act {number}"))
    store.drain("why not")
    return kept


def seen(store: Store) -> dict[str, object]:
    """Return all that a store can be asked."""
    return {
        "people": store.people(),
        "tokens": store.tokens(),
        "uploads": store.stale_uploads(NOW * 2),
        "runs": [store.run(row.id) for row in store.runs(limit=10**4)],
        "unfinished": store.unfinished(),
        "removable": store.removable(NOW * 2),
        "use": [store.use(team, NOW) for team in ("red", "blue")],
        "changes": store.changes(),
        "drained": store.drained(),
        "audited": store.audited(),
    }


def test_a_backup_of_either_database_is_restored_into_either(
    store: Store, url: str, other_url: str, tmp_path: Path
):
    kept, path = fill(store), tmp_path / "kept"
    (code,) = store.invite([Invitation("red", "bob")], NOW, DAY_S)
    store.identify(kept, NOW)
    facts = backup(url, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.glob(".*")] == []
    assert facts.revision == schema.newest()
    # Ten have started, and one was cancelled before.
    assert (facts.rows["runs"], facts.rows["parcels"]) == (30, 19)
    assert restore(path, other_url) == facts
    other = open_store(other_url)
    assert seen(other) == seen(store)
    # It goes on from there.
    assert other.identify(kept, NOW) == store.identify(kept, NOW)
    assert other.redeem(code.code, "", NOW, None, ()) is not None
    assert other.claim("02", 0)
    other.audit(AuditEntry(NOW, "ada", "the newest"))
    assert [act.act for act in other.audited(2)] == ["the newest", "act 11"]
    other.close()


def test_a_backup_is_of_one_moment_while_others_write(
    store: Store, url: str, tmp_path: Path
):
    """Each run is added before its act, so no backup has more acts than runs."""
    stop, written = Event(), 0

    def writes() -> None:
        nonlocal written
        while not stop.is_set():
            store.add_run(run(f"{written:010}"))
            store.audit(AuditEntry(NOW, "ada", "added"))
            written += 1

    writer = Thread(target=writes)
    writer.start()
    try:
        for number in range(8):
            before = written
            path = tmp_path / str(number)
            rows = backup(url, path).rows
            assert before <= rows["runs"] <= written + 1
            assert rows["runs"] - rows["audit"] in (0, 1)
            assert rows["runs"] == rows["parcels"]
            target = f"sqlite:///{tmp_path}/store-{number}"
            assert restore(path, target).rows == rows
            again = open_store(target)
            assert again.changes() == rows["runs"]
            again.close()
    finally:
        stop.set()
        writer.join()
    assert written


def test_a_backup_of_an_older_schema_is_restored_as_the_newest(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    filled(url)
    revision = schema.newest()
    path = tmp_path / "kept"
    later(tmp_path, monkeypatch, "op.add_column('teams', sa.Column('note', sa.Text))")
    assert backup(url, path).revision == revision
    target = f"sqlite:///{tmp_path}/other.sqlite"
    assert restore(path, target).revision == revision
    assert schema.revision(target) == "9000"
    store = open_store(target)
    assert [act.about for act in store.audited()] == ["red"]
    assert store.use("red", 0).bytes == 87
    store.close()


def test_a_backup_is_restored_into_an_empty_store_only(
    store: Store, url: str, other_url: str, tmp_path: Path
):
    fill(store)
    path = tmp_path / "kept"
    backup(url, path)
    other = open_store(other_url)
    other.close()
    restore(path, other_url)
    other = open_store(other_url)
    before = seen(other)
    with pytest.raises(RaiError, match="is not empty"):
        restore(path, other_url)
    assert seen(other) == before
    other.close()


def test_a_backup_that_cannot_be_made_leaves_no_file(url: str, tmp_path: Path):
    path = tmp_path / "kept"
    with pytest.raises(RaiError, match=r"there is no store|is empty"):
        backup(url, path)
    open_store(url).close()
    with pytest.raises(RaiError, match="No such file"):
        backup(url, tmp_path / "none" / "kept")
    (tmp_path / "taken").mkdir()
    with pytest.raises(RaiError, match="taken"):
        backup(url, tmp_path / "taken")
    kept = {entry.name for entry in tmp_path.iterdir() if "sqlite" not in entry.name}
    assert kept == {"taken"}


def test_a_backup_of_a_newer_rai_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "kept"
    with monkeypatch.context() as newer:
        later(tmp_path, newer, "pass")
        open_store(url).close()
        backup(url, path)
    target = f"sqlite:///{tmp_path}/other.sqlite"
    with pytest.raises(RaiError, match="schema '9000', which is newer than this rai"):
        restore(path, target)
    assert not (tmp_path / "other.sqlite").exists()


def test_columns_that_a_database_numbers_are_known():
    numbered = {
        table.name: column.name
        for table in metadata.sorted_tables
        if (column := table.autoincrement_column) is not None
    }
    assert numbered == NUMBERED


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Make a backup, decompressed."""
    folder = tmp_path_factory.mktemp("kept")
    url = f"sqlite:///{folder}/store.sqlite"
    store = open_store(url)
    fill(store)
    store.close()
    backup(url, folder / "kept")
    data = (folder / "kept").read_bytes()
    return zstd.decompress(data)


def packed(lines: Lines) -> bytes:
    """Write lines as a backup; the last one is made anew."""
    rows = dict.fromkeys(lines[0]["tables"], 0)
    for line in filter(None, lines[1:-1]):
        rows[line[0]] = rows.get(line[0], 0) + 1
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    end = {"rows": rows, "sha256": hashlib.sha256(data).hexdigest()}
    return zstd.compress(data + json.dumps(end).encode() + b"\n")


def first(lines: Lines, table: str) -> Any:
    return next(line for line in lines[1:] if line[0] == table)


def at(lines: Lines, table: str, column: str, value: object) -> None:
    place = list(lines[0]["tables"][table]).index(column)
    first(lines, table)[1 + place] = value


def twice(lines: Lines) -> None:
    lines.insert(-1, list(first(lines, "teams")))


def orphan(lines: Lines) -> None:
    at(lines, "people", "team", "none")


ALTERED: dict[str, Callable[[Lines], None]] = {
    "no such schema": lambda lines: lines[0].update(revision="0000"),
    "a path as schema": lambda lines: lines[0].update(revision="../../evil"),
    "another format": lambda lines: lines[0].update(format="rai store 9"),
    "a table more": lambda lines: lines[0]["tables"].update(evil={"a": "text"}),
    "a table less": lambda lines: lines[0]["tables"].pop("audit"),
    "a column more": lambda lines: lines[0]["tables"]["runs"].update(evil="text"),
    "another kind": lambda lines: lines[0]["tables"]["runs"].update(gpus="text"),
    "a row of no table": lambda lines: lines.insert(1, ["evil", 1]),
    "a row without words": lambda lines: lines.insert(1, []),
    "a row of a number": lambda lines: lines.insert(1, [1, 2]),
    "a row too short": lambda lines: first(lines, "runs").pop(),
    "a row too long": lambda lines: first(lines, "runs").append(1),
    "text for a number": lambda lines: at(lines, "runs", "gpus", "1"),
    "true for a number": lambda lines: at(lines, "runs", "gpus", True),
    "a number for text": lambda lines: at(lines, "runs", "team", 5),
    "a number for true": lambda lines: at(lines, "runs", "alone", 1),
    "a huge number": lambda lines: at(lines, "uploads", "size", 1 << 63),
    "no Base64": lambda lines: at(lines, "parcels", "parcel", "***"),
    "NUL": lambda lines: at(lines, "runs", "project", "a\0b"),
    "null": lambda lines: at(lines, "runs", "team", None),
    "a list": lambda lines: at(lines, "runs", "team", ["red"]),
    "half a character": lambda lines: at(lines, "runs", "team", "\ud800"),
    "no such state": lambda lines: at(lines, "runs", "state", "flying"),
    "no such reason": lambda lines: at(lines, "runs", "reason", "flying"),
    "no such scope": lambda lines: at(lines, "tokens", "scopes", "run root"),
    "a change too late": lambda lines: at(lines, "runs", "changed", 10**9),
    "a server less": lambda lines: lines.remove(first(lines, "server")),
    "another server": lambda lines: at(lines, "server", "id", 2),
    "a row twice": twice,
    "nobody's": orphan,
    "a parcel of no run": lambda lines: at(lines, "parcels", "run", "none"),
}


@pytest.mark.parametrize("altered", ALTERED)
def test_an_altered_backup_is_refused_whole(
    kept: bytes, other_url: str, tmp_path: Path, altered: str
):
    lines = [json.loads(line) for line in kept.splitlines()]
    ALTERED[altered](lines)
    path = tmp_path / "kept"
    path.write_bytes(packed(lines))
    with pytest.raises(RaiError, match="is damaged: ") as told:
        restore(path, other_url)
    assert "INSERT" not in str(told.value)
    assert schema.revision(other_url) == ""
    assert not (tmp_path / "other.sqlite").exists()


def test_what_is_altered_is_whole_where_nothing_is(
    kept: bytes, other_url: str, tmp_path: Path
):
    path = tmp_path / "kept"
    path.write_bytes(packed([json.loads(line) for line in kept.splitlines()]))
    assert restore(path, other_url).rows["runs"] == 30


def damaged(kept: bytes) -> dict[str, bytes]:
    whole = zstd.compress(kept)
    every = kept.splitlines(keepends=True)

    def of(*lines: bytes) -> bytes:
        return zstd.compress(b"".join(lines))

    return {
        "nothing": b"",
        "no zstd": b"\x1f\x8b" + bytes(range(256)),
        "half the file": whole[: len(whole) // 2],
        "all but a byte": whole[:-1],
        "a byte changed": whole[:99] + bytes([whole[99] ^ 1]) + whole[100:],
        "no line": of(),
        "the head alone": of(every[0]),
        "no last line": of(*every[:-1]),
        "a row less": of(*every[:5], *every[6:]),
        "another row": of(*every[:5], every[5].replace(b"1", b"2"), *every[6:]),
        "more after the end": of(*every, every[1]),
        "two of them": of(*every, *every),
        "no JSON": of(b"{" * 10_000, b"\n"),
        "deep JSON": of(every[0], b'["runs",' + b"[" * 10**6, b"\n"),
        "no text": of(every[0], b'["teams", "\xff\xfe", "student", 1]\n'),
        "no end of the last line": of(kept[:-1]),
    }


def test_a_damaged_backup_is_refused_whole(kept: bytes, tmp_path: Path):
    path = tmp_path / "kept"
    target = f"sqlite:///{tmp_path}/other.sqlite"
    for what, data in damaged(kept).items():
        path.write_bytes(data)
        with pytest.raises(RaiError, match="is damaged: "):
            restore(path, target)
        assert not (tmp_path / "other.sqlite").exists(), what
    with pytest.raises(RaiError, match="No such file"):
        restore(tmp_path / "none", target)
    with pytest.raises(RaiError, match="not a regular file"):
        restore(tmp_path, target)


BOUNDED = """
import resource, sys
from pathlib import Path
from runner.core.errors import RaiError
from runner.database.restoring import restore
try:
    restore(Path(sys.argv[1]), sys.argv[2])
except RaiError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.programs
@pytest.mark.parametrize("bomb", ["one line", "blank lines", "equal rows"])
def test_a_bomb_takes_little_memory(kept: bytes, tmp_path: Path, bomb: str):
    every = kept.splitlines(keepends=True)
    act = next(line for line in every if line.startswith(b'["audit"'))
    repeated = {
        "one line": (b"x" * (1 << 20), 1000),
        "blank lines": (b"\n" * (1 << 20), 1000),
        "equal rows": (act * 10_000, 20),
    }
    path = tmp_path / "kept"
    piece, times = repeated[bomb]
    with (
        path.open("wb") as out,
        zstd.ZstdFile(out, "wb", level=9) as file,
    ):
        file.write(every[0])
        for _ in range(times):
            file.write(piece)
    assert path.stat().st_size < 1 << 20
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, path, f"sqlite:///{tmp_path}/other.sqlite"],
        check=True,
        capture_output=True,
        text=True,
    )
    said, _, peak_kib = done.stdout.strip().rpartition("\n")
    assert "is damaged: " in said, done.stdout
    assert int(peak_kib) < 500_000
    assert not (tmp_path / "other.sqlite").exists()
