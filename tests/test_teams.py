"""Three teams' copies of the project, as tools/benchmarks/teams.py makes them."""

from __future__ import annotations

import plan
import pytest

from runner.spec import milestones
from runner.submit import files
from tools.benchmarks import teams


@pytest.mark.programs
def test_a_team_has_its_own_final_variant_and_all_that_a_submission_needs(tmp_path):
    place = teams.team(tmp_path, "per_layer")

    _, choice = plan.read(place / "plan.json")
    assert choice.milestones["final"] == ("per_layer",)
    submitted = files.look(place, milestones.find("final"))
    assert submitted.problems == ()


def test_each_team_rehearses_its_final_and_the_first_all_else():
    first, *others = teams.TEAMS
    found = [(one.team, one.milestone) for one in teams.programme(times=3)]

    assert found.count((first, "final")) == 3
    assert all(found.count((name, "final")) == 1 for name in others)
    assert (first, "m3") in found and (first, "m4") in found
