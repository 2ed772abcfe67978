"""The sections of a report, and how they are as Markdown."""

from __future__ import annotations

import json
import re

from markdown_it import MarkdownIt
from msgspec.structs import replace

from runner.core import Inference, Outcome, State
from runner.core.evidence import OutputEnds, RunEvidence, Totals, Trace
from runner.core.measurement import read
from runner.report import diff, markdown
from runner.report import document as report_document
from runner.report.blocks import Pairs, Paragraph, Section, Table
from runner.report.diff_nouns import DiffSide
from runner.report.document import sections as document
from runner.report.document.sections import anchor
from runner.report.findings import measured
from runner.spec import milestones
from tests.kit import judge_cases as made
from tests.kit.documents import command, evidence, inference, run, table
from tests.kit.hostile_records import HOSTILE

ALWAYS = [
    *("Summary", "Op Times and correctness", "Run times", "Kernels", "API calls"),
    *("Analysis by kernel", "Layers", "Timelines", "Output", "Runs and machines"),
]


def sections(*runs: RunEvidence, **facts) -> dict[str, Section]:
    found = document.sections(report_document.report(runs, **facts))
    return {one.title: one for one in found}


def words(section: Section) -> str:
    return repr(section)


def tables(section: Section) -> dict[str, Table]:
    return {part.title: part for part in section.parts if isinstance(part, Table)}


def test_what_a_run_does_not_have_is_said_in_its_place():
    found = sections(RunEvidence(run(command(0, "other.py"))))

    assert list(found) == ALWAYS
    for title in ("Op Times and correctness", "Kernels", "API calls", "Layers"):
        (part,) = found[title].parts
        assert isinstance(part, Paragraph)


def test_commands_that_were_skipped_for_one_reason_are_in_one_sentence():
    skipped = {"outcome": Outcome.SKIPPED, "exit_code": None, "wall_s": None}
    ran = [command(0, "a.py"), *(command(n, "b.py", **skipped) for n in (1, 2, 4))]
    whys = ("", "needs a GPU", "needs a GPU", "command 4 failed")
    every = [replace(c, why=why) for c, why in zip(ran, whys, strict=True)]

    table, *sentences = sections(evidence(run(*every)))["Run times"].parts

    assert [row[0] for row in table.rows] == ["1"]
    assert sentences == [
        Paragraph("Commands 2, 3 were skipped: needs a GPU"),
        Paragraph("Command 5 was skipped: command 4 failed"),
    ]


def test_a_profile_that_no_command_names_is_called_by_its_file():
    spent = Totals("GPU activities", "conv", 1, 0.5, 0.5, 0.5)
    kept = Trace("trace.json", "trace", totals=(spent,))

    found = sections(evidence(run(command(0, "train.py")), traces=(kept,)))

    assert list(tables(found["Kernels"])) == [
        "GPU activities (from trace.json); 1 rows are 100.00 %"
    ]


def test_synthetic_images_are_told_of_before_anything_else():
    made_up = command(0, "m2.1.py", Inference((0.5,), agreement=1.0))

    found = sections(evidence(run(made_up)))

    first = found["Summary"].parts[0]
    assert "synthetic" in first.text
    assert "accuracy" in first.text


def test_a_run_that_goes_on_says_so():
    going = run(command(0, "m1.1.py"), state=State.RUNNING, verdict=None, ended_at=None)

    found = sections(evidence(going))["Summary"]

    assert "has not ended" in words(found)


def test_op_times_stand_by_the_number_of_images():
    commands = [
        command(n, f"m3.1.py {images}", inference(images, times=(images / 1e5,)))
        for n, images in enumerate((100, 1000, 10000))
    ]

    shown = tables(sections(evidence(run(*commands)))["Op Times and correctness"])

    by_images = shown["net: Op Times by number of images"]
    assert by_images.heads == ("program", "100", "1000", "10000")
    assert by_images.rows == (("m3.1.py", "1.000 ms", "10.00 ms", "100.0 ms"),)


def test_of_a_network_that_two_commands_ran_the_op_times_that_were_printed_count():
    commands = [
        command(0, "m3.1.py 100", inference(100, times=())),
        command(1, "m3.1.py 100 --time", inference(100, times=(0.5,))),
        command(2, "m3.1.py 1000", inference(1000, times=(1.0,))),
    ]

    shown = tables(sections(evidence(run(*commands)))["Op Times and correctness"])

    by_images = shown["net: Op Times by number of images"]
    assert by_images.rows == (("m3.1.py", "500.0 ms", "1.000 s"),)


def test_each_item_of_a_check_list_leads_to_a_section_that_is_there():
    text = [milestones.find(name) for name in milestones.names()]
    commands = [command(0, "m1.1.py"), command(1, "m2.1.py", inference())]

    found = sections(evidence(run(*commands)), milestones=text)

    anchors = {one.anchor for one in found.values()}
    linked = {
        place
        for part in found["Check-list"].parts
        if isinstance(part, Table)
        for place in part.anchors
    }
    assert linked - {""} == {"output", "run-times", "op-times-and-correctness"}
    assert linked - {""} <= anchors
    assert all(one.anchor == anchor(one.title) for one in found.values())


def test_runs_stand_side_by_side_and_two_are_compared():
    old = run(command(0, "final.py", inference(times=(2.0,))), name="aa")
    new = run(command(0, "final.py", inference(times=(1.0,))), name="bb")
    changed = diff.between(DiffSide(old), DiffSide(new))

    found = sections(evidence(old), evidence(new), comparison=changed)

    shown = tables(found["Side by side"])["Op Times"]
    assert shown.heads[-2:] == ("aa", "bb")
    assert shown.rows[0][-2:] == ("2.000 s", "1.000 s")
    assert "verdict" in words(found["Comparison"])
    titles = list(tables(found["Op Times and correctness"]))
    assert titles[::2] == [
        f"{run}: net: Op Times by number of images" for run in ("aa", "bb")
    ]


def test_the_outcome_of_a_submission_is_shown_as_rai_show_does():
    outcome = read(json.dumps(made.measurement()).encode())

    found = sections(evidence(run(), measurement=outcome))

    assert list(found["Submission"].parts) == measured(outcome)


def test_what_is_left_out_of_an_output_is_said_where_it_was():
    record = run(command(0, "m1.1.py"))
    output = OutputEnds("begin", "end", 2048)

    (shown,) = sections(RunEvidence(record, outputs={0: output}))["Output"].parts

    assert shown.text.split("\n") == ["begin", "[2.0 KiB are left out here]", "end"]
    assert shown.left_out == 2048


def rendered(page: str):
    return MarkdownIt("commonmark").enable("table").parse(page)


def test_as_markdown_every_table_is_one_and_every_link_leads_to_a_heading():
    tables = (table("GPU activities", 95.0, 5.0), table("API calls", 100.0))
    before = "nvprof -f -o m3.1.nvprof --print-summary"
    commands = [
        command(0, "m3.1.py 100", inference(100)),
        command(1, "m3.1.py", before=before, profiles=tables),
    ]
    report = report_document.report([evidence(run(*commands))], [milestones.find("m3")])
    shown = document.sections(report)

    page = markdown.document("A run", shown, 1 << 20)

    tokens = rendered(page)
    count = sum(isinstance(part, Table | Pairs) for one in shown for part in one.parts)
    assert sum(token.type == "table_open" for token in tokens) == count
    titles = [
        tokens[at + 1].content
        for at, token in enumerate(tokens)
        if token.type == "heading_open"
    ]
    places = {anchor(re.sub(r"&#\d+;", "", title)) for title in titles}
    links = {
        child.attrs["href"]
        for token in tokens
        for child in token.children or ()
        if child.type == "link_open"
    }
    assert links
    assert {str(link).removeprefix("#") for link in links} <= places


def test_nothing_that_a_run_says_is_markup():
    hostile = command(0, f"m1.1.py {HOSTILE}", inference(variant=HOSTILE))
    record = run(hostile, project=f"/{HOSTILE}", warnings=(HOSTILE,))
    found = RunEvidence(record, note=HOSTILE, outputs={0: OutputEnds(HOSTILE)})

    sections = document.sections(report_document.report([found]))
    page = markdown.document(HOSTILE, sections, 1 << 20)

    html = MarkdownIt("commonmark").enable("table").render(page)
    assert "<script" not in html
    assert "\x1b" not in page
    opened = re.findall(r"<(?!!--)/?([a-z]+\d?)", html)
    assert set(opened) <= {
        *("h1", "h2", "h3", "h4", "p", "table", "thead", "tbody", "tr", "th", "td"),
        *("details", "summary", "pre", "br", "em", "strong"),
    }


def test_a_page_that_is_too_long_loses_its_end_and_says_so():
    record = run(*(command(n, "m1.1.py") for n in range(300)))

    page = markdown.document(
        "T", document.sections(report_document.report([evidence(record)])), 9000
    )

    assert len(page.encode()) <= 9000
    assert "left out" in page
    assert "## Summary" in page


def test_markdown_says_which_command_shows_a_timeline_of_a_file_with_any_name():
    profile = Trace("my m3; rm -r x.nvprof", "nvprof", spans=1)
    shown = sections(evidence(run(command(0, "m3.1.py")), traces=(profile,)))

    page = markdown.document("A run", [shown["Timelines"]], 1 << 20)

    assert "rai timeline 0123456789 'my m3; rm -r x.nvprof'" in page
