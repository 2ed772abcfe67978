"""teams.csv: who is invited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import ConfigError
from runner.server import rules
from runner.server.database.accounts import Invitation

ROLES = ("student", "staff")
ADA = Invitation("red", "ada")
BO = Invitation("blue", "bo", "staff")


def parsed(text: str | bytes) -> list[Invitation]:
    data = text if isinstance(text, bytes) else text.encode()
    return rules.parse_teams(data, "teams.csv", ROLES)


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parsed(text)
    return [str(one) for one in refused.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "red,ada\nblue,bo,staff\n",
        "team,person,role\nred,ada,\nblue,bo,staff\n",
        "Team;Person;Role\r\nred;ada\r\nblue;bo;staff\r\n",
        "\ufeffperson\trole\tteam\nada\t\tred\nbo\tstaff\tblue",
        '# a; class\n\n"red", ada \n"blue", "bo",staff',
    ],
)
def test_a_table_is_read_as_people_and_spreadsheets_write_it(text):
    assert parsed(text) == [ADA, BO]


def test_names_are_those_of_people_and_addresses():
    rows = parsed("Équipe 1,Zoë O'Hara\nred,ada@example.org\n")
    assert [one.person for one in rows] == ["Zoë O'Hara", "ada@example.org"]


def test_all_problems_come_at_once_each_with_its_line():
    found = problems("red,ada\nred\nred,ada\nblue,../bo\nblue,bo,king\nred,cy,staff\n")
    assert len(found) == 4
    for line, word in ((2, "expected"), (3, "twice"), (4, "'../bo'"), (5, "'king'")):
        assert any(f"teams.csv:{line}:" in one and word in one for one in found)


def test_a_team_has_one_role():
    (found,) = problems("red,ada,student\nred,bo,staff\n")
    assert "teams.csv:2:" in found
    assert "student on line 1" in found


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "nobody"),
        (b"team,person\n", "nobody"),
        (b"red,ada\nred,\xff\n", "teams.csv:2: it is not UTF-8"),
        (b"red,ada\n" * (rules.MOST_ROWS + 1), "over"),
        (b'red,"ada\n', "end of"),
        (b"red,a\x1b[31mda\n", "is no name"),
        (b"red," + b"a" * 65, "is no name"),
    ],
)
def test_what_is_no_table_of_people_is_refused(data, word):
    assert word in "\n".join(problems(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_problems(data):
    try:
        assert parsed(data)
    except ConfigError as error:
        assert error.problems
