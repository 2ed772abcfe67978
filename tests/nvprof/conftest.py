"""The whole program, as a user starts it."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.nvprof.whole import DEADLINE_S, PROGRAM


@pytest.fixture
def environ(tmp_path):
    """Return an environment with a library; the fake programs need not load it."""
    library, temporary = tmp_path / "libnvprof.so", tmp_path / "tmp"
    library.touch()
    temporary.mkdir()
    return {**os.environ, "NVPROF_LIBRARY": str(library), "TMPDIR": str(temporary)}


@pytest.fixture
def nvprof(tmp_path, environ):
    """Run nvprof, and see that it leaves nothing behind."""

    def run(*words, program=PROGRAM, stdin=None, **more):
        done = subprocess.run(
            [*program, *words],
            env={**environ, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=DEADLINE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert not list((tmp_path / "tmp").iterdir())
        assert not list(tmp_path.glob(".nvprof-*"))
        return done

    return run
