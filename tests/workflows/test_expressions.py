"""What an expression is worth, and which are refused."""

from __future__ import annotations

import pytest

from tests.workflows.expressions import condition, evaluate, filled
from tests.workflows.refused import RefusedError

CONTEXTS = {
    "github": {
        "repository": "Someone/project",
        "event_name": "push",
        "event": {"number": 3, "pull_request": None},
    },
    "inputs": {"fail-if": "", "commit": None},
    "steps": {"rai": {"outputs": {"run-id": "ab12"}, "outcome": "success"}},
    "env": {"A": "a"},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        ("github.event.number", 3),
        ("github.event.pull_request.head.sha", None),
        ("steps.rai.outputs.run-id", "ab12"),
        ("steps.rai.outputs.other", None),
        ("inputs.fail-if || 'none'", "none"),
        ("inputs.commit || github.event.after || github.repository", "Someone/project"),
        ("github.event_name == 'push' && 'a' || 'b'", "a"),
        ("github.event_name != 'push' && 'a' || 'b'", "b"),
        ("github.repository == 'someone/PROJECT'", True),
        ("github.event.pull_request.head == github.repository", False),
        ("inputs.commit == ''", True),
        ("1 == '1'", True),
        ("true == 1", True),
        ("!(env.A == 'a') || env.B", None),
        ("'' || 0 || false", False),
    ],
)
def test_an_expression_is_worth_what_github_says(text, value):
    assert evaluate(text, CONTEXTS) == value


@pytest.mark.parametrize(
    "text",
    [
        *("github.actr", "inputs.comit", "steps.other.outputs.x", "secrets.TOKEN"),
        *("contains('a', 'b')", "always(1)", "env['A']", "env.*", "1 < 2"),
        *("'open", "(true", "true true", "", "env.", "a b"),
    ],
)
def test_what_is_not_known_is_refused(text):
    with pytest.raises(RefusedError):
        evaluate(text, CONTEXTS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${{ github.event.number }}", 3),
        ("run-${{ github.event.number }}-${{ env.A }}", "run-3-a"),
        ("no expression", "no expression"),
        ("${{ inputs.commit }}", None),
        ("is ${{ github.event_name == 'push' }}", "is true"),
        (7, 7),
    ],
)
def test_a_text_is_filled_with_the_values_of_its_expressions(text, value):
    assert filled(text, CONTEXTS) == value


@pytest.mark.parametrize(
    ("text", "after_success", "after_failure"),
    [
        (None, True, False),
        ("always()", True, True),
        ("${{ failure() }}", False, True),
        ("env.A == 'a'", True, False),
        ("always() && env.A == 'b'", False, False),
        ("success() || failure()", True, True),
        (False, False, False),
    ],
)
def test_a_condition_looks_at_the_state_of_the_job(text, after_success, after_failure):
    assert condition(text, CONTEXTS, "success") == after_success
    assert condition(text, CONTEXTS, "failure") == after_failure


def test_text_around_the_expression_of_a_condition_is_refused():
    with pytest.raises(RefusedError, match="always true"):
        condition("${{ env.A }} == 'b'", CONTEXTS, "success")
