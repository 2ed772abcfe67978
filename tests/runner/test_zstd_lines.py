"""Lines of compressed files, which may be damaged or hostile."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.archive import zstd_lines as module
from runner.archive.compressed import zstd
from runner.archive.zstd_lines import zstd_lines


def packed(folder: Path, data: bytes) -> Path:
    path = folder / "lines.zst"
    path.write_bytes(zstd.compress(data))
    return path


def test_lines_come_as_they_were_written(tmp_path: Path):
    wanted = [b"\n", b"one\n", b"\0\xff\r\n", b"x" * 99 + b"\n"]
    assert list(zstd_lines(packed(tmp_path, b"".join(wanted)), 100)) == wanted
    assert list(zstd_lines(packed(tmp_path, b""), 100)) == []


@pytest.mark.parametrize("data", [b"x" * 100 + b"\n", b"one\ntwo"])
def test_a_line_that_is_too_long_or_has_no_end_is_refused(tmp_path: Path, data: bytes):
    with pytest.raises(ValueError, match="ends early, or has a line that is too long"):
        list(zstd_lines(packed(tmp_path, data), 100))


def test_what_becomes_much_larger_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = packed(tmp_path, b"0123456\n" * 10_000)
    size = path.stat().st_size
    assert len(list(zstd_lines(path, 100))) == 10_000
    monkeypatch.setattr(module, "FREE_BYTES", 0)
    monkeypatch.setattr(module, "MOST_RATIO", 100)
    read = 0
    with pytest.raises(ValueError, match="far more than its size"):
        for line in zstd_lines(path, 100):
            read += len(line)
    assert read == 100 * size // 8 * 8


def test_what_is_no_zstd_is_refused(tmp_path: Path):
    path = tmp_path / "lines.zst"
    path.write_bytes(b"plain text\n")
    with pytest.raises(ValueError, match="cannot be decompressed"):
        list(zstd_lines(path, 100))
