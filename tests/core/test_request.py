"""What is asked of a run, as it is written and read."""

from __future__ import annotations

import json

import pytest

from runner.core import RunRequest
from runner.core.policy import RolePolicy
from runner.core.request import Terms, from_json, to_json
from runner.core.work import Secrets

ASKED = RunRequest(
    "/home/ada/net",
    "rai_build.yml",
    "rai: {}",
    env_given=("TOKEN",),
    secret=Secrets({"TOKEN": "hunter22"}, "rai: {version: 0.2}"),
    terms=Terms({"RAI_ENGINE": "local"}, allowed=RolePolicy({"time_s": 60.0})),
)


def test_a_worker_reads_all_that_was_written():
    assert from_json(to_json(ASKED)) == ASKED
    assert ASKED.sent and not ASKED.kept.sent


def test_what_is_kept_names_the_variables_and_has_no_value():
    kept = json.loads(to_json(ASKED.kept))
    assert list(kept) == ["version", "project", "spec_file", "spec_text", "env_given"]
    assert "hunter22" not in repr(ASKED)


def test_what_was_kept_before_is_still_read():
    found = from_json(
        b'{"project":"/p","spec_file":"f","spec_text":"","sha256":"0","git":null,'
        b'"after":[],"substitute":null,"title":"","version":1}'
    )
    assert found == RunRequest("/p", "f", "", "0")


@pytest.mark.parametrize("text", [b'"version":2', b'"repeat":"x"', b'"project":1'])
def test_another_shape_is_refused(text):
    with pytest.raises(ValueError, match="at `"):
        from_json(b'{"spec_file":"f","spec_text":"","project":"p",' + text + b"}")
