"""A server starts its job host."""

from __future__ import annotations

import os
import socket

import pytest

from runner.core.errors import EngineError
from runner.server import hosting
from runner.store.settings import SETTINGS


def test_a_job_host_has_the_settings_of_runs_and_no_other_variable():
    given = {setting.variable: "x" for setting in SETTINGS} | {"PATH": "/bin"}
    secrets = dict.fromkeys(
        ("RAI_DATABASE_URL", "RAI_PUBLIC_URL", "PGPASSWORD", "AWS_SECRET"), "x"
    )
    assert hosting.environment(given | secrets) == given


def test_a_job_host_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(hosting, "OTHERS_WITHIN_S", 0.1)
    nowhere = tmp_path / "nowhere" / "jobs.sock"
    with pytest.raises(EngineError, match="cannot listen at"):
        hosting.start(nowhere, tmp_path / "home", dict(os.environ))


def test_a_job_host_that_answers_is_not_started_again(tmp_path):
    path = tmp_path / "jobs.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        assert not hosting.start(path, tmp_path / "home", {})
    assert not (tmp_path / "home").exists()
