"""`rai submit` and `rai submissions` of two teams, at a real server with workers."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from runner import pack
from runner.client import profile
from runner.client.profile import ProfileEntry
from tests.cli.test_submit_cli import CPP, END
from tests.kit import sample_submission as sample
from tests.kit import standin
from tests.kit.needs import ROOT
from tests.kit.site import Person, Site, serving
from tests.kit.waiting import until

pytestmark = [
    *(pytest.mark.local, pytest.mark.programs, pytest.mark.cpp, pytest.mark.slow)
]
TIMES = "deadline: 2099-12-11 12:00 America/Chicago\nattempts: 2\n"


@pytest.fixture
def site(tmp_path):
    own = tmp_path / "milestones"
    own.mkdir()
    text = (ROOT / "runner/spec/milestones/m2.yml").read_text()
    (own / "m2.yml").write_text(text + TIMES)
    with serving(tmp_path, RAI_MILESTONES=str(own)) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = sample.write(tmp_path / "team")
    (folder / CPP).parent.mkdir()
    (folder / CPP).write_bytes((ROOT / CPP).read_bytes())
    (folder / "rai_build.yml").write_text("commands: {build: [cat secrets.txt]}\n")
    (folder / "secrets.txt").write_text("nobody's business\n")
    return folder


def joined(site: Site, team: str, name: str) -> Person:
    person = site.person(team, name)
    login = ProfileEntry(f"unix://{site.socket}", person.token)
    profile.keep(login, person.home / ".rai_profile")
    return person


def test_two_teams_submit_and_a_killed_server_gives_one_verdict(site, project):
    ada, bo, cy = (
        joined(site, *w) for w in (("red", "ada"), ("red", "bo"), ("b", "c"))
    )

    listed = ada.rai("submit")
    assert re.search(r"m2 .* 2099-12-1\d \d\d:\d\d:00 \w+ +2 of 2\n", listed.stdout)

    going = ada.started("submit", "m2", "-p", project)
    until(lambda: len(list(site.runs.glob("*/events.jsonl"))) == 2, "no second run")
    site.kill()
    site.start()
    out, said = going.communicate(timeout=120)
    assert going.returncode == 0, said
    assert re.search(r"Submission 1 received .*; attempt 1 of 2; SHA-256 ", said)
    assert "Submission to m2: correct: " in said and "It counts now." in said
    assert re.search(r"convolution +correct", out)
    assert len(list(site.runs.glob("*/record.json"))) == 4
    (sha256,) = re.findall("SHA-256 ([0-9a-f]{64})", said)
    (sent,) = site.state.glob(f"uploads/*/{sha256}.tar.zst")
    assert set(pack.files(sent)) == {CPP, "report.pdf"}

    table = bo.rai("submissions").stdout
    assert re.search(r"^1 +m2 +ada .* 1 +correct +[0-9a-f]{10} +counts$", table, re.M)
    assert cy.rai("submissions").stdout.startswith("No submission yet")
    assert ada.rai("submissions", "--all").returncode == 9
    assert "m2, fp32, local" in ada.rai("ranking", "--on", "here").stdout
    ranking = ada.rai("ranking", "m2").stdout
    assert ranking.startswith("m2 has no ranking: no time of it counts.")

    (project / CPP).write_text("int x = y;\n")
    broken = bo.rai("submit", "m2", "-p", project)
    assert broken.returncode == 1 and f"{CPP}:1:9: error:" in broken.stderr
    again = bo.rai("submit", "m2", "-p", project)
    assert again.returncode == 9 and "your team used its 2 attempts" in again.stderr
    again = bo.rai("submit", "m2", "-p", project, "--rehearse")
    assert again.returncode == 1 and "Rehearsal of m2 ended: compile:" in again.stderr


def test_a_wrong_answer_is_told_and_ctrl_c_leaves_a_submission_going(site, project):
    ada = joined(site, "red", "ada")
    text = (ROOT / CPP).read_text()
    (project / CPP).write_text(text.replace(END, f"{END}    y[5] += 1;\n"))

    refused = ada.rai("submit", "m2", "-p", project, "--engine", "local", "--gpus", "1")
    assert refused.returncode == 2 and "--on here" in refused.stderr
    assert refused.stderr.count("is not for submissions at") == 2

    going = ada.started("submit", "m2", "-p", project)
    until(lambda: list(ada.runs.glob("*/events.jsonl")), "no run is shown")
    going.send_signal(signal.SIGINT)
    _, error = going.communicate(timeout=60)
    assert going.returncode == 130
    assert "Submission 1 goes on. Look again: rai submissions m2" in error

    def one() -> dict[str, object]:
        (found,) = json.loads(ada.rai("submissions", "--json").stdout)
        return found

    until(lambda: one()["reason"], "no verdict", 60)
    assert (one()["reason"], one()["counts"]) == ("wrong_answer", False)
    assert "row 0, column 5" in str(one()["message"])


@pytest.mark.kernels
def test_kernels_are_measured_one_after_another_and_compared(tmp_path):
    own = tmp_path / "milestones"
    own.mkdir()
    (own / "final.yml").write_text(standin.milestone())
    folder = sample.write(tmp_path / "team", final=[standin.entry()])
    given = {"module": standin.__name__, "RAI_MILESTONES": str(own)}
    with serving(tmp_path, **given) as made:
        ada = joined(made, "red", "ada")

        done = ada.rai("submit", "final", "-p", folder, "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["gpu"]["name"] and found["entries"][0]["accepted"]
        assert found["host"]["ranked"] and found["host"]["engine"] == "local"

        for text, status in ((standin.OTHER, 4), ("int x = y;\n", 1)):
            (folder / sample.SOURCE).write_text(text)
            sample.write_plan(folder, sample.plan(folder, final=[standin.entry()]))
            done = ada.rai("submit", "final", "-p", folder)
            assert done.returncode == status, done.stderr
        table = ada.rai("submissions", "final").stdout.splitlines()
        assert [line.split()[0] for line in table[1:]] == ["3", "2", "1"]
        counted = r"accepted +\w+ +\S+ [µm]s +[0-9.]+ +[0-9.]+ to [0-9.]+ +counts$"
        assert re.search(counted, table[3])
