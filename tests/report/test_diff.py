"""What differs between two runs, and what makes their figures not comparable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core import (
    CommandRecord,
    EngineFacts,
    Findings,
    GitState,
    Gpu,
    GpuProcess,
    GpuState,
    GpuUse,
    GpuWay,
    ImageAction,
    ImageUsed,
    Inference,
    Limits,
    Machine,
    Profile,
    ProfileRow,
    ProfileTable,
    Reason,
    RunRecord,
    Source,
    Verdict,
)
from runner.figures.comparison import Change
from runner.report import blocks, diff, diff_blocks, diff_nouns
from runner.report.diff_nouns import FilesChange
from runner.terminal.layout import lines
from runner.terminal.streams import Look
from tests.kit import records

MACHINE = Machine("here", "Linux", "cpu", 2, 1 << 30, "3.11", "0.1.0")
PRINTED = Findings((Inference((0.5, 0.25), 0.8, "ece408"),))
COMMAND = records.command(0, "python m1.1.py", wall_s=2.0, findings=PRINTED)
RUN = records.ended(
    "a1",
    COMMAND,
    project="/p",
    created_at=100.0,
    ended_at=103.0,
    engine=EngineFacts("docker", "20.10"),
    profile=Profile.STRICT,
    limits=Limits(),
    machine=MACHINE,
    git=GitState("c0ffee"),
    image=ImageUsed("gcc:12", "sha256:1", ImageAction.REUSE, ""),
    gpu=GpuUse(GpuWay.CDI, (Gpu("GPU-1", "H100", 0),), "580.1"),
    data=("/data/a",),
    data_md5={"/data/a": "11"},
    archive_sha256="ff",
)
AGAIN = replace(RUN, id="b2", created_at=200.0, ended_at=204.0, replays="a1")


def between(
    after: RunRecord, before: RunRecord = RUN, **sides: Any
) -> diff_nouns.RunDiff:
    old = {name: values[0] for name, values in sides.items()}
    new = {name: values[1] for name, values in sides.items()}
    return diff.between(
        diff_nouns.DiffSide(before, **old), diff_nouns.DiffSide(after, **new)
    )


def unlike(after: RunRecord, before: RunRecord = RUN) -> dict[str, tuple[str, str]]:
    return {m.what: (m.before, m.after) for m in diff.incomparable(before, after)}


def titles(found: diff_nouns.RunDiff, **options: bool) -> list[str]:
    shown = diff_blocks.blocks(found, **options)
    return [b.title if isinstance(b, blocks.Table) else b.rows[0][0] for b in shown]


def table(found: diff_nouns.RunDiff, title: str, **options: bool) -> blocks.Table:
    shown = diff_blocks.blocks(found, **options)
    (one,) = (b for b in shown if isinstance(b, blocks.Table) and title in b.title)
    return one


def said(found: diff_nouns.RunDiff, name: str) -> str:
    """Return the value of a name that stands above or below the tables."""
    pairs = [b.rows for b in diff_blocks.blocks(found) if isinstance(b, blocks.Pairs)]
    return dict(row for rows in pairs for row in rows)[name]


def names(found: diff_nouns.RunDiff) -> list[str]:
    """Return the names that stand above or below the tables."""
    pairs = [b.rows for b in diff_blocks.blocks(found) if isinstance(b, blocks.Pairs)]
    return [name for rows in pairs for name, _ in rows]


def printing(*inferences: Inference, **others: Any) -> RunRecord:
    command = replace(COMMAND, findings=Findings(inferences), **others)
    return replace(AGAIN, commands=(command,))


def test_equal_runs_show_no_table_and_a_count_of_the_rows_left_out():
    found = between(AGAIN)

    assert diff.differences(found) == ()
    assert found.mismatches == ()
    assert titles(found) == ["before", "verdict", "not shown"]
    *_, last = diff_blocks.blocks(found)
    assert last == blocks.Pairs((("not shown", "37 equal rows: rai diff a1 b2 --all"),))
    assert "Figures" in titles(found, everything=True)


@pytest.mark.parametrize(
    ("changes", "differences", "unlike_of"),
    [
        ({"machine": replace(MACHINE, host="there")}, ["machine"], set()),
        ({"machine": replace(MACHINE, rai="0.2.0")}, ["rai"], set()),
        ({"machine": replace(MACHINE, cpu="other")}, ["CPU"], {"CPU"}),
        ({"engine": EngineFacts("local", "20.10")}, ["engine"], {"engine"}),
        ({"engine": EngineFacts("docker", "29")}, ["engine version"], set()),
        (
            {"image": ImageUsed("gcc:12", "sha256:2", ImageAction.BUILD, "gone")},
            ["image digest"],
            {"image digest"},
        ),
        (
            {"image": ImageUsed("gcc:13", "", ImageAction.REUSE, "")},
            ["image", "image digest"],
            {"image"},
        ),
        ({"image": None}, ["image", "image digest"], {"image"}),
        (
            {"gpu": GpuUse(GpuWay.CDI, (Gpu("GPU-2", "H200", 0),), "590")},
            ["GPU", "GPU board", "driver"],
            {"GPU", "driver"},
        ),
        ({"gpu": None}, ["GPU", "GPU board", "driver", "GPU by"], {"GPU"}),
        (
            {"gpu": GpuUse(GpuWay.CDI, (Gpu("GPU-2", "H100", 0),), "580.1")},
            ["GPU board"],
            {"GPU board"},
        ),
        ({"data_md5": {"/data/a": "22"}}, ["data /data/a"], {"data /data/a"}),
        ({"data_md5": {}}, [], set()),
        (
            {"data": (), "missing_data": ("/data/a",), "data_md5": {}},
            ["data /data/a"],
            {"data /data/a"},
        ),
        ({"git": GitState("c0ffee", dirty=True)}, ["commit"], set()),
        ({"archive_sha256": "00"}, ["project"], set()),
        ({"profile": Profile.COMPATIBLE}, ["profile"], {"profile"}),
        ({"limits": Limits(pids=64)}, ["limit pids"], {"limit pids"}),
        ({"limits": Limits(build_time_s=1.0)}, ["limit build_time"], set()),
        (
            {
                "commands": (
                    replace(COMMAND, exit_code=124, reason=Reason.TIME_LIMIT),
                ),
                "verdict": Verdict(True, False, None, Reason.TIME_LIMIT),
            },
            ["reason", "command 1"],
            set(),
        ),
        (
            {
                "commands": (
                    replace(COMMAND, findings=Findings((Inference((1.0,), 0.7, "n"),))),
                )
            },
            ["inference 1"],
            {"model, inference 1 of python m1.1.py"},
        ),
    ],
)
def test_what_differs_is_named_and_what_of_it_makes_runs_not_comparable(
    changes, differences, unlike_of
):
    after = replace(AGAIN, **changes)

    assert [d.what for d in diff.differences(between(after))] == differences
    assert unlike(after).keys() == unlike_of


def test_a_difference_has_both_values():
    changed = between(replace(AGAIN, image=None, limits=Limits(pids=64)))

    found = {d.what: (d.before, d.after) for d in diff.differences(changed)}

    assert found["image"] == ("gcc:12", "")
    assert found["limit pids"] == ("512", "64")


def on_gpu(**state: Any) -> RunRecord:
    """Return the run with its GPU at rest before it and in this state after it."""
    gpu = RUN.gpu
    assert gpu
    rest = GpuState("GPU-1", sm_clock_mhz=345, temperature_c=35)
    after = replace(GpuState("GPU-1", sm_clock_mhz=1980, temperature_c=40), **state)
    return replace(AGAIN, gpu=replace(gpu, before=(rest,), after=(after,)))


@pytest.mark.parametrize(
    ("state", "what"),
    [
        ({"sm_clock_mhz": 1965}, {}),
        ({"sm_clock_mhz": 1200}, {"SM clock": ("1980 MHz", "1200 MHz")}),
        ({"sm_clock_mhz": None}, {"SM clock": ("1980 MHz", "345 MHz")}),
        ({"temperature_c": 80}, {"temperature": ("40 °C", "80 °C")}),
        ({"throttle": ("power cap",)}, {"throttled": ("", "power cap")}),
        (
            {"processes": (GpuProcess(7, "train", 1 << 30),)},
            {"others on the GPU": ("", "train (7, 1.0 GiB)")},
        ),
        ({"processes": ()}, {}),
    ],
)
def test_a_gpu_in_another_state_is_told_by_its_highest_clock_and_temperature(
    state, what
):
    assert unlike(on_gpu(**state), on_gpu()) == what


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Inference((0.5,), 0.8, "ece408", source=Source(batch_size=100)), "batch size"),
        (Inference((0.5,), 0.8, "ece408", source=Source(variant="best")), "variant"),
        (Inference((0.5,), 0.8, "ece408", accuracy_class="tf32"), "class"),
        (Inference((0.5,), 0.8, "other"), "model"),
        (Inference((0.5,), agreement=1.0, model="ece408"), "images"),
        (Inference((0.5,), 0.8, "ece408", source=Source(under=("nvprof",))), "under"),
    ],
)
def test_what_was_measured_makes_figures_not_comparable(other, what):
    assert list(unlike(printing(other))) == [f"{what}, inference 1 of python m1.1.py"]


def test_inferences_belong_together_by_their_variant_and_batch_not_by_their_place():
    sizes = [
        Inference((0.1 * n,), 0.8, "n", source=Source(batch_size=n)) for n in (1, 2, 3)
    ]

    found = between(printing(*sizes[::-1]), printing(*sizes))

    assert found.mismatches == ()
    assert all(one.same for one in found.inferences)


def test_what_is_not_comparable_comes_before_any_figure_with_its_consequences():
    other = replace(RUN.gpu, gpus=(Gpu("GPU-2", "H200", 0),))
    found = between(replace(AGAIN, gpu=other, data_md5={"/data/a": "22"}))

    _, first, *_ = diff_blocks.blocks(found)

    assert first.title == (
        "Not comparable: the times, results and memory below say nothing about the code"
    )
    assert first.rows == (
        ("GPU", "H100 -> H200", "times are of another GPU"),
        ("data /data/a", "11 -> 22", "results are of other data"),
    )


def test_what_may_explain_a_difference_is_told_with_care():
    found = between(on_gpu(sm_clock_mhz=1200), on_gpu())

    assert titles(found)[1] == (
        "Compare with care: this may explain differences of times"
    )


def verdicts(found: diff_nouns.RunDiff) -> dict[str, str]:
    return {one.metric: one.verdict for one in found.figures}


def test_one_sample_a_side_shows_differences_and_no_verdict():
    found = between(printing(Inference((0.25,), 0.8, "ece408"), wall_s=1.0))

    assert set(verdicts(found).values()) == {"not enough samples"}
    figures = table(found, "Figures")
    assert figures.heads == ("metric", "a1", "b2", "change")
    assert figures.rows == (
        ("op_time[1]", "750.0 ms", "250.0 ms", "-66.7 %"),
        ("command[1].wall", "2.000 s", "1.000 s", "-50.0 %"),
    )
    assert table(found, "Op Times").rows == (
        ("1", "python m1.1.py", "op 1", "500.0 ms", "250.0 ms", "-50.0 %"),
        ("", "", "op 2", "250.0 ms", "", "gone"),
        ("", "", "sum", "750.0 ms", "250.0 ms", "-66.7 %"),
    )
    assert said(found, "verdict").startswith("not enough samples (one sample a side;")


def rounds(times_s: Sequence[float], run: RunRecord = RUN) -> RunRecord:
    """Return a run with a round for each of these op times."""
    return replace(run, commands=records.rounds(times_s, COMMAND.text))


NOISE = [1 + 0.001 * (n % 5) for n in range(30)]


def test_samples_get_medians_an_interval_and_a_verdict():
    found = between(rounds([0.5 * n for n in NOISE], AGAIN), rounds(NOISE))

    assert verdicts(found)["op_time[1]"] == Change.FASTER
    figures = table(found, "Figures")
    assert figures.heads == (
        *("metric", "a1", "b2"),
        *("change, 99.5 % interval", "verdict"),
    )
    metric, before, after, change, verdict = figures.rows[0]
    assert (metric, before, after) == ("op_time[1]", "1.002 s", "501.0 ms")
    assert re.fullmatch(r"-50\.0 % \(-[0-9.]+ to -[0-9.]+\)", change)
    assert verdict == "faster"
    assert said(found, "verdict") == (
        "faster (30 rounds a side; measured at different times)"
    )


@given(st.lists(st.floats(-1.0, 1e308), min_size=2, max_size=2))
def test_figures_of_any_size_can_be_shown_side_by_side(values):
    before, after = values

    found = between(rounds([after] * 10, AGAIN), rounds([before] * 10))

    assert table(found, "Figures", everything=True).rows


def test_samples_of_another_gpu_or_amount_of_work_get_no_verdict():
    slower = rounds([2 * n for n in NOISE], AGAIN)

    found = between(replace(slower, gpu=None), rounds(NOISE))

    assert verdicts(found)["op_time[1]"] == "not comparable"
    assert said(found, "verdict") == "not comparable"


def command(index: int, text: str, op_time_s: float, name: str = "") -> CommandRecord:
    found = Findings((Inference((op_time_s,), 0.8, "n"),))
    own = replace(COMMAND, index=index, text=text, name=name or None)
    return replace(own, findings=found)


def test_a_command_that_another_was_put_before_is_compared_with_itself():
    before = replace(RUN, commands=(command(0, "one", 1.0), command(1, "two", 2.0)))
    after = (command(0, "new", 9.0), command(1, "one", 1.0), command(2, "two", 3.0))

    found = between(replace(AGAIN, commands=after), before)

    times = {f.metric: (f.before, f.after) for f in found.figures}
    assert times["op_time[2]"] == (1.0, 1.0)
    assert times["op_time[3]"] == (2.0, 3.0)
    assert times["op_time[1]"] == (None, 9.0)
    assert table(found, "How they ended").rows == (
        ("1", "new", "not there", "ok, exit 0"),
    )


def test_a_command_in_the_place_of_another_is_not_compared_with_it():
    before = replace(RUN, commands=(command(0, "python a.py", 1.0),))
    after = replace(AGAIN, commands=(command(0, "python b.py", 2.0),))

    found = between(after, before)

    assert [(m.what, m.before, m.after) for m in found.mismatches] == [
        ("command 1", "python a.py", "python b.py")
    ]
    assert [c.same for c in found.commands] == [False, False]
    assert all(f.before is None for f in found.figures)


def profiled(*rows: tuple[str, float, int]) -> RunRecord:
    made = tuple(ProfileRow(name, 1.0, total_s, calls) for name, total_s, calls in rows)
    tables = (ProfileTable("nvprof", "GPU activities", made),)
    own = replace(COMMAND, findings=Findings(profiles=tables))
    return replace(AGAIN, commands=(own,))


def test_the_rows_of_a_profile_are_sorted_by_how_much_time_they_changed():
    before = profiled(("same", 1.0, 1), ("a", 1.0, 1), ("b", 3.0, 2), ("gone", 0.5, 1))
    after = profiled(("b", 1.0, 2), ("a", 1.1, 3), ("new", 0.2, 4), ("same", 1.0, 1))

    found = between(after, before)
    shown = table(found, "GPU activities")

    assert shown.title == "nvprof: GPU activities of command 1, `python m1.1.py`"
    assert shown.rows == (
        ("3.000 s", "1.000 s", "-66.7 %", "-2.000 s", "2", "b"),
        ("500.0 ms", "", "gone", "-500.0 ms", "1 -> 0", "gone"),
        ("", "200.0 ms", "new", "+200.0 ms", "0 -> 4", "new"),
        ("1.000 s", "1.100 s", "+10.0 %", "+100.0 ms", "1 -> 3", "a"),
    )
    whole = table(found, "GPU activities", everything=True)
    assert [row[-1] for row in whole.rows] == ["b", "gone", "new", "a", "same"]


def test_of_many_rows_the_most_changed_are_shown_and_the_others_added_up():
    before = profiled(*((f"k{n}", 1.0, 1) for n in range(500)))
    after = profiled(*((f"k{n}", 2.0, 1) for n in range(500)))

    rows = table(between(after, before), "GPU activities").rows

    assert len(rows) == 13
    assert rows[-1] == (
        "488.0 s",
        "976.0 s",
        "+100.0 %",
        "+488.0 s",
        "488",
        "and 488 more",
    )


def test_the_build_files_are_compared_line_by_line():
    old = "".join(f"line {n}\n" for n in range(20))
    new = old.replace("line 9\n", "line nine\n").replace("line 15\n", "")

    found = between(AGAIN, spec=(old, new))

    assert found.spec
    assert found.spec.lines == (
        *("@@ -8,5 +8,5 @@", " line 7", " line 8", "-line 9", "+line nine"),
        *(" line 10", " line 11"),
        *(
            "@@ -14,5 +14,4 @@",
            " line 13",
            " line 14",
            "-line 15",
            " line 16",
            " line 17",
        ),
    )
    assert found.spec.left_out == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\n" * 100_000, "b\n" * 100_000),
        ("x\n" + "a\n" * 200_000 + "p\n" * 300, "y\n" + "a\n" * 200_000 + "q\n" * 300),
        ("a" * 1_000_000, "b" * 1_000_000),
    ],
)
def test_a_huge_build_file_is_cut(old, new):
    found = between(AGAIN, spec=(old, new)).spec

    assert found
    assert len(found.lines) <= 200
    assert max(map(len, found.lines), default=0) <= 200
    assert found.left_out or len(old) == 1_000_000


def test_the_files_that_differ_are_named():
    old, new = {"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}

    found = between(AGAIN, files=(old, new))

    assert found.files == FilesChange(("d",), ("c",), ("b",))
    assert table(found, "Files").rows == (("changed", "b"), ("new", "d"), ("gone", "c"))
    assert between(AGAIN, files=(old, None)).files is None


def test_what_a_record_quotes_reaches_a_terminal_escaped():
    hostile = "\x1b[2J\u202eevil\u2731"
    rows = (ProfileRow(hostile, 1.0, 2.0, 1),)
    own = replace(
        COMMAND,
        text=hostile,
        findings=Findings(
            (Inference((1.0,), 0.5, hostile),),
            profiles=(ProfileTable("nvprof", hostile, rows),),
        ),
    )
    found = between(replace(AGAIN, commands=(own,)), spec=("a", hostile))

    text = "".join(
        line
        for width in (None, 80)
        for block in diff_blocks.blocks(found, everything=True)
        for line in lines(block, Look(width=width))
    )

    assert "evil" in text
    assert not {"\x1b", "\u202e", "\u2731"} & set(text)


def test_runs_that_ended_early_can_be_compared():
    bare = RunRecord("a1", "/p", "f", 1.0)

    assert diff.differences(between(replace(bare, id="b2"), bare)) == ()
    assert titles(between(AGAIN, bare))
