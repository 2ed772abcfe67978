"""The whole program, as a user starts it."""

from __future__ import annotations

import os

import pytest

from image.nvprof.tests.whole import DEADLINE_S, PROGRAM
from tests.kit.program import run_program


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
        done = run_program(
            [*program, *words],
            env={**environ, **more},
            cwd=tmp_path,
            input=stdin,
            timeout=DEADLINE_S,
        )
        assert "Traceback" not in done.stderr
        assert not list((tmp_path / "tmp").iterdir())
        assert not list(tmp_path.glob(".nvprof-*"))
        return done

    return run
