"""A run's files get to their places."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

from nvprof.log import Log
from nvprof.options import parse
from nvprof.run import Run

CUDA = (sys.executable, str(Path(__file__).with_name("fake_cuda.py")))


def test_an_output_gets_to_another_file_system(tmp_path, monkeypatch, capfd):
    # Temporary files lie on another one, and there are no FIFOs beside the output.
    beside, temporary = tmp_path / "beside", tmp_path / "temporary"
    beside.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    make = os.mkfifo

    def mkfifo(path, mode):
        if beside in Path(path).parents:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        make(path, mode)

    def crossing(source, target, **_):
        raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))

    monkeypatch.setattr(os, "mkfifo", mkfifo)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, crossing)
    path = beside / "t.nvprof"
    options = parse(["-o", str(path), *CUDA, "cuda"])
    run = Run(options, Log(None, {}, "node", quiet=False), dict(os.environ), "node")
    run.check()
    assert run.profile(tmp_path / "libnvprof.so") == 0
    assert f"Generated result file: {path}" in capfd.readouterr().err
    base = sqlite3.connect(path)
    assert base.execute("SELECT count(*) FROM kernel").fetchone() == (3,)
    base.close()
    assert list(beside.iterdir()) == [path]
    assert list(temporary.iterdir()) == []
