"""Runs as JUnit's XML and Gradescope's results."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core import Findings, Inference, Outcome, Reason
from runner.core.work import NO_GPU_HERE
from runner.report import exports, markdown
from runner.report.reported import Annotation, ReportedRun, readable
from tests.kit.hostile_records import COMMANDS, HOSTILE, run

FAILED = run(*COMMANDS, reason=Reason.COMMAND_FAILED, message="it failed")
GOOD = run(*COMMANDS[:2])


def parsed(runs, failures=()):
    return ElementTree.fromstring(exports.document(runs, failures).encode())


def test_junit_has_a_case_for_each_command_with_its_end_and_its_output():
    (suite,) = parsed([ReportedRun(FAILED, tails={2: "last words"})])

    assert suite.get("tests") == "5"
    assert suite.get("failures") == "2"
    cases = suite.findall("testcase")
    kinds = [[child.tag for child in case] for case in cases]
    assert kinds == [[], [], ["failure"], ["failure"], ["skipped"]]
    assert cases[4][0].text == "the run ended first"
    assert cases[2][0].get("message") == "exit status 1"
    assert "illegal address" in cases[2][0].text
    assert cases[2][0].text.endswith("last words")
    assert 'output "PASS"' in cases[3][0].get("message")
    values = {p.get("name"): p.get("value") for p in suite.find("properties")}
    assert values["op_time[final]"] == "0.75"
    assert values["commit"] == "c0ffee" * 6


def test_repeats_are_one_case_with_the_medians_of_their_figures():
    found = Findings(inferences=(Inference(agreement=0.5),))
    again = [
        replace(COMMANDS[1], index=n, repeats=1, round=n, wall_s=float(n))
        for n in (2, 3, 4)
    ]
    commands = (replace(COMMANDS[0], findings=found), COMMANDS[1], *again)

    (suite,) = parsed([ReportedRun(run(*commands))])

    assert suite.get("tests") == "2"
    values = {p.get("name"): p.get("value") for p in suite.find("properties")}
    assert values["command[final].wall"] == "2.5"
    assert values["agreement[build]"] == "0.5"


def test_junit_shows_a_run_that_failed_without_a_failed_command():
    lost = run(COMMANDS[0], reason=Reason.BUILD_FAILED, message="no such file")

    (suite,) = parsed([ReportedRun(lost)])

    last = suite.findall("testcase")[-1]
    assert last.find("error").get("type") == "build_failed"
    assert "no such file" in last.find("error").text


def test_junit_shows_what_failed_beside_the_runs():
    found = parsed([ReportedRun(GOOD)], [Annotation("Gate", "op_time is 5 % more")])

    assert [suite.get("failures") for suite in found] == ["0", "1"]
    assert found[1].find("testcase/failure").text == "op_time is 5 % more"


def test_junit_holds_whatever_a_program_prints():
    hostile = replace(COMMANDS[2], text=HOSTILE, name=HOSTILE)

    (suite,) = parsed([ReportedRun(run(hostile), tails={2: HOSTILE})])

    case = suite.find("testcase")
    assert "\\x00" in case.get("name")
    assert "</pre><script>]]>" in case.find("failure").text


@settings(max_examples=40)
@given(st.text())
def test_junit_is_xml_for_every_text(text: str):
    command = replace(COMMANDS[2], text=text, name=text or None)

    parsed([ReportedRun(run(command), tails={2: text})])


def test_an_autograder_gets_a_test_for_each_command():
    found = exports.results([ReportedRun(FAILED, tails={2: "last words"})], "hidden")

    tests = found["tests"]
    assert [test["score"] for test in tests] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert {test["max_score"] for test in tests} == {1.0}
    assert {test["visibility"] for test in tests} == {"hidden"}
    assert tests[2]["output"].endswith("last words")
    assert "op time 750.0 ms" in tests[1]["output"]
    assert "score" not in found
    json.dumps(found, allow_nan=False)


def test_a_command_that_needs_a_gpu_where_there_is_none_is_not_scored():
    skipped = replace(COMMANDS[-1], why=NO_GPU_HERE)

    *_, told = exports.results([ReportedRun(run(*COMMANDS[:2], skipped))])["tests"]

    assert not {"score", "max_score", "status"} & told.keys()
    assert told["output"] == f"skipped\n{NO_GPU_HERE}"


def test_the_leaderboard_has_the_figures_of_a_run_that_ended_well():
    board = exports.results([ReportedRun(GOOD)])["leaderboard"]

    assert board == [
        {"name": "Op Time (s)", "value": 0.75, "order": "asc"},
        {"name": "Correctness", "value": 0.85, "order": "desc"},
    ]
    assert "leaderboard" not in exports.results([ReportedRun(FAILED)])


def test_a_submission_has_one_score_and_its_times_on_the_leaderboard():
    found = exports.submission(["accepted\x1b", "80 of 100 points."], 80, 1.2, 0.7)

    assert (found["score"], "tests" in found) == (80, False)
    assert found["output"] == "accepted\\x1b\n80 of 100 points."
    assert found["leaderboard"] == [
        {"name": "Time (ms)", "value": 1.2, "order": "asc"},
        {"name": "Ratio", "value": 0.7, "order": "asc"},
    ]
    assert "leaderboard" not in exports.submission(["wrong"], 0)


def test_many_commands_are_cut_and_their_points_still_counted():
    many = [replace(COMMANDS[0], index=n) for n in range(exports.MOST_TESTS + 5)]

    found = exports.results([ReportedRun(run(*many))])

    assert len(found["tests"]) == exports.MOST_TESTS
    assert found["score"] == len(many)
    broken = run(reason=Reason.BUILD_FAILED, message="no such file")
    found = exports.results([ReportedRun(broken)])
    assert found["score"] == 0
    assert "no such file" in found["output"]


def test_a_summary_says_how_a_run_ended_and_what_failed_last_printed():
    shown = markdown.summary([ReportedRun(FAILED, tails={2: "last words"})])

    assert shown.startswith("## ❌ rai project: command failed\n")
    assert "<pre>\nlast words\n</pre>" in shown
    assert "| 2 | final: ./final | ok | 0 |" in shown


def test_a_summary_leaves_room_for_what_is_there_already():
    many = [
        replace(COMMANDS[0], index=n, outcome=Outcome.OK, text="x" * 900)
        for n in range(1000)
    ]

    shown = markdown.summary([ReportedRun(run(*many))], there=500_000)

    assert 400_000 < len(shown.encode()) <= markdown.MOST_BYTES - 500_000
    assert "lines are left out" in shown


def test_the_end_of_an_output_is_plain_text_that_begins_with_a_line():
    shown = readable(
        b"half a line\n\x1b[31mred\x1b[0m\x1b[2J\x07\rdone\x00\n", whole=False
    )

    assert shown == "...\nred\ndone"
