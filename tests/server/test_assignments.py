"""An assignment of a site's own at a real server, as its staff and a student see it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core.errors import RaiError
from runner.core.milestone import TIMED_BY
from runner.core.request import from_json
from tests.kit.site import serving
from tests.submit.test_timed import assignment, written

pytestmark = [
    *(pytest.mark.local, pytest.mark.programs, pytest.mark.lengthy),
    pytest.mark.cgroups,  # without them no time counts
]


def test_a_team_is_timed_by_files_that_it_never_gets(tmp_path: Path):
    folder = assignment(tmp_path / "site", points="[{points: 10, ms: 3}]")
    team = written(tmp_path / "team", add_py="def add(a, b):\n    return a + b\n")
    with serving(tmp_path / "server", RAI_MILESTONES=str(folder)) as site:
        ada, ta = site.person("red", "ada"), site.person("crew", "ta", "staff")
        (code,) = site.codes("red", "ada")
        words = (site.url, "--fingerprint", site.fingerprint)
        assert ada.rai("login", *words, input=code).returncode == 0

        done = ada.rai("submit", "add", "-p", team, "--gradescope", tmp_path / "r.json")

        assert done.returncode == 0, done.stderr
        assert f"accepted: 2.500 ms, {TIMED_BY}" in done.stderr
        results = json.loads((tmp_path / "r.json").read_text())
        assert results["score"] == 10 and results["leaderboard"][0]["value"] == 2.5
        heading, _, row = ada.rai("ranking", "add").stdout.splitlines()
        assert heading == f"add, fp32, local: {TIMED_BY}"
        assert row.split()[:4] == ["1", "red", "2.500", "ms"]
        listed = ada.rai("submissions").stdout
        assert re.search(r"accepted +[0-9a-f]{10} +2\.500 ms +10 +counts\n", listed)
        assert listed.endswith(f"\nTimes of add: {TIMED_BY}\n")
        (run,) = (path.name for path in ada.runs.iterdir() if path.is_dir())
        with (
            ada.client() as client,
            pytest.raises(RaiError, match="assignment's staff"),
        ):
            client.download(run, "source.tar.zst", tmp_path / "got", 1 << 20)
        with (
            ada.client() as client,
            pytest.raises(RaiError, match="does not have the packed project"),
        ):
            again = replace(from_json(client.parcel(run)), title="")
            client.put_run("0123456789", again)
        with ta.client() as client:
            client.download(run, "source.tar.zst", tmp_path / "got", 1 << 20)
        with ada.client() as client:
            assert b"harness" not in client.milestone_file("add")
