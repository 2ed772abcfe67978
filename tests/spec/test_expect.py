"""What a build file expects of a command's output, as it is written."""

from __future__ import annotations

import pytest

from runner.core import Place
from runner.core.build_spec import Expectation
from runner.core.errors import SpecError
from runner.spec import buildfile

TEXT = """\
commands:
  build:
    - run: ./a.out
      expect: %s
"""


def read(expect: str) -> tuple[Expectation, ...]:
    spec, warnings = buildfile.parse(TEXT % expect, "f.yml")
    assert warnings == []
    return spec.commands[0].expect


def wrong(expect: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        buildfile.parse(TEXT % expect, "f.yml")
    return [str(problem) for problem in caught.value.problems]


def test_a_command_without_the_key_expects_nothing():
    spec, _ = buildfile.parse("commands: {build: [make, {run: x}]}\n", "f.yml")

    assert [command.expect for command in spec.commands] == [(), ()]


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ("{correctness: 0.8898}", ["correctness 0.8898"]),
        ("{agreement: 1}", ["agreement 1"]),
        ('{accuracy: ">= 0.85"}', ["accuracy >= 0.85"]),
        ('{correctness: [">0.8", "<.9"]}', ["correctness > 0.8", "correctness < .9"]),
        ("{correctness: ==0.5}", ["correctness 0.5"]),
        ("{output: Test PASSED}", ['output "Test PASSED"']),
        (r'{output: "/\\d+ of \\d+/"}', [r"output /\d+ of \d+/"]),
        ("{output: /build/x}", ['output "/build/x"']),
        ("{output: /}", ['output "/"']),
        ("{output: [one, /tw./]}", ['output "one"', "output /tw./"]),
        ("{correctness: 1, output: ok}", ["correctness 1", 'output "ok"']),
        (
            "{any_of: [{correctness: 0.8898}, {agreement: 1}]}",
            ["correctness 0.8898 or agreement 1"],
        ),
    ],
)
def test_one_or_several_figures_and_texts_may_be_expected(expect, words):
    assert [one.words for one in read(expect)] == words


def test_each_expectation_knows_its_place():
    one, two = read("{correctness: 1, output: ok}")

    assert (one.place, two.place) == (Place("f.yml", 4, 29), Place("f.yml", 4, 40))


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ("0.8898", '4:15: commands.build[1].expect is "0.8898"; expected a mapping'),
        ("[correctness]", "expect is a list; expected a mapping"),
        ("{}", "expected at least one key"),
        ("{corectness: 1}", "4:16: unknown key `corectness`"),
        ("{corectness: 1}", "did you mean `correctness`?"),
        ("{speed: 1}", "valid keys are `correctness`, `agreement`"),
        ("{correctness: 88.98}", 'correctness is "88.98"; expected a number from 0 to'),
        ("{correctness: nan}", 'is "nan"'),
        ("{correctness: '~0.9'}", 'is "~0.9"'),
        ("{correctness: [1, x]}", 'expect.correctness[2] is "x"'),
        ("{correctness: []}", "correctness is a list"),
        ("{correctness: {is: 1}}", "correctness is a mapping"),
        ("{output: }", 'output is ""; expected a text'),
        ('{output: "a\\nb"}', "has several lines; the output is searched line by"),
        (f"{{output: {'x' * 1001}}}", "expected a text of 1 to 1000 characters"),
        ("{output: /a(/}", "output /a(/ cannot be searched: missing ): a("),
        ("{output: '/(?=a)/'}", "cannot be searched: invalid perl operator"),
        ("{output: '/(a)\\1/'}", "cannot be searched: invalid escape sequence"),
        ("{output: /x*/}", "it matches any output"),
        ("{output: '/((a{0,50}){0,10}){0,2}b/'}", "it is too complex"),
        ("{any_of: {correctness: 1}}", "any_of is a mapping; expected a list"),
        ("{any_of: [{correctness: 1, output: x}]}", "expected a mapping with one key"),
        ("{any_of: [{any_of: []}]}", "unknown key `any_of`"),
        ("{any_of: []}", "any_of is a list"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_place(expect, said):
    (problem,) = wrong(expect)

    assert problem.startswith("f.yml:4:")
    assert said in problem


def test_all_problems_come_at_once():
    assert len(wrong("{correctness: 7, output: /(/, agrement: 1}")) == 3
