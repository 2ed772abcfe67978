"""A record as a report shows it: profiles down to what takes the time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core import (
    BuildSpec,
    Command,
    CommandRecord,
    EngineFacts,
    Findings,
    GitState,
    Inference,
    Outcome,
    ProfileFile,
    ProfileRow,
    ProfileTable,
    RunRecord,
    Source,
)
from runner.core.quantities import brief
from runner.execution import preparation
from runner.figures import table as figures
from runner.report import blocks, phrases, plans
from runner.report import runs as run_tables
from runner.report.findings import profile
from runner.report.phrases import day, shortened
from runner.report.runs import op_time_s
from runner.spec import images

SHARES = (50.0, 25.0, 15.01, 5.0, 4.99)
TABLE = ProfileTable(
    "nvprof",
    "GPU activities",
    tuple(
        ProfileRow(f"kernel{n}", share, share * 1e-4, 2, share * 5e-5)
        for n, share in enumerate(SHARES)
    ),
)
PLAN = (
    "void mshadow::cuda::MapPlanLargeKernel<mshadow::sv::saveto, int=8>"
    "(mshadow::gpu, unsigned int)"
)


def names(table: blocks.Table) -> list[str]:
    return [row[-1] for row in table.rows]


def with_shares(*shares: float) -> ProfileTable:
    rows = tuple(ProfileRow(f"k{n}", s, s, 1) for n, s in enumerate(shares))
    return ProfileTable("nvprof", "API calls", rows)


def test_a_profile_shows_what_takes_over_nine_tenths_and_sums_up_the_rest():
    shown = profile(TABLE)

    assert shown.title == "nvprof: GPU activities"
    assert [row[:2] for row in shown.rows] == [
        ("50.00 %", "50.00 %"),
        ("25.00 %", "75.00 %"),
        ("15.01 %", "90.01 %"),
        ("9.99 %", "100.00 %"),
    ]
    assert shown.rows[0][2:] == ("5.000 ms", "2", "2.500 ms", "kernel0")
    assert shown.rows[-1][2:] == ("999.0 µs", "4", "", "and 2 more")


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        # As floats the first three add up to a little more than 90.
        ((60.1, 20.2, 9.7, 4.0, 3.0, 3.0), "k0 k1 k2 k3 and 2 more"),
        ((80.0, 15.0, 5.0), "k0 k1 k2"),
        ((40.0, 20.0), "k0 k1"),
        ((5.0, 95.0), "k1 k0"),
    ],
    ids=["just nine tenths", "a rest of one", "cut short by a log", "in another order"],
)
def test_rows_are_shown_by_their_share_as_far_as_it_says_something(shares, shown):
    assert " ".join(names(profile(with_shares(*shares)))) == shown


def test_each_commands_profile_stands_under_its_command():
    one = CommandRecord(0, "python a.py", None, Outcome.OK, findings=Findings())
    two = replace(one, index=1, findings=Findings(profiles=(TABLE,)))
    three = replace(two, index=2, text="nvprof \\\n python b.py")

    shown = run_tables.of(RunRecord("1", "/p", "f", 0.0, commands=(one, two, three)))

    titles = [block.title for block in shown if isinstance(block, blocks.Table)]
    assert titles == [
        "Commands",
        "nvprof: GPU activities of command 2, `python a.py`",
        "nvprof: GPU activities of command 3, `nvprof \\ ...`",
    ]


def test_each_profile_is_named_with_its_size_and_how_it_is_read_again():
    files = (
        ProfileFile("nvprof", "t.nvprof", 86016),
        ProfileFile("nvprof", "t.ncu-rep", 1),
        ProfileFile("nsys", "my run.nsys-rep", 1),
        ProfileFile("ncu", "out/a.ncu-rep", 1),
    )
    one = CommandRecord(1, "./prof", None, Outcome.OK, profile_files=files)

    *_, shown = run_tables.of(RunRecord("1a", "/p", "f", 0.0, commands=(one,)))

    assert shown.heads[-1] == "after `rai pull 1a`"
    assert shown.rows[0] == ("2", "t.nvprof", "84.0 KiB", "nvprof -i build-1a/t.nvprof")
    assert [row[-1] for row in shown.rows[1:]] == [
        "ncu -i build-1a/t.ncu-rep",
        "nsys stats 'build-1a/my run.nsys-rep'",
        "ncu -i build-1a/out/a.ncu-rep",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.0, "0 s"),
        (992e-9, "992.0 ns"),
        (1.12e-6, "1.120 µs"),
        (0.00099996, "1.000 ms"),
        (0.016602, "16.60 ms"),
        (1.56281, "1.563 s"),
        (86400.0, "86400 s"),
    ],
)
def test_a_short_time_keeps_four_digits(value, text):
    assert brief(value) == text


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (200, PLAN),
        (80, PLAN.partition("(")[0] + "(...)"),
        (68, PLAN.partition("(")[0].removeprefix("void ") + "(...)"),
        (60, "mshadow::cuda::MapPlanLargeKernel<mshadow::sv::save...>(...)"),
        (46, "mshadow::cuda::MapPlanLargeKernel<...>(...)"),
        (30, "MapPlanLargeKernel<...>(...)"),
        (16, "MapPlanLargeK..."),
    ],
)
def test_a_name_loses_first_what_tells_least(width, text):
    assert shortened(PLAN, width) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("[CUDA memcpy HtoD and some]", "[CUDA memcpy HtoD..."),
        ("a::b::forward_kernel(int)", "forward_kernel(...)"),
        ("volta_scudnn_128x32_relu_interior_nn_v1", "volta_scudnn_128x..."),
        ("void f<&(g(int))>(float const *, int)", "f<&(g(int))>(...)"),
        ("std::vector<int>::size_of_it(int)", "std::vector<int>:..."),
    ],
)
def test_other_names_are_cut_sensibly_too(name, text):
    assert shortened(name, 20) == text


@given(st.text("ab:<>(), [", max_size=60), st.integers(16, 50))
def test_no_name_is_wider_than_it_may_be(name, width):
    assert len(shortened(name, width)) <= width


def test_a_table_is_fitted_by_its_names_alone():
    shown = blocks.Table("t", ("calls", "name"), (("12345678", PLAN),), names={1})

    (row,) = phrases.fitted(shown, 48).rows

    assert row == ("12345678", "MapPlanLargeKernel<mshadow::s...>(...)")
    assert phrases.fitted(replace(shown, names=frozenset()), 48).rows == shown.rows
    assert len(phrases.fitted(shown, 5).rows[0][1]) <= 16


@pytest.mark.parametrize(
    ("dirty", "said"),
    [(True, ", with changes"), (False, ""), (None, ", changes unknown")],
)
def test_a_commit_says_whether_the_files_differed_from_it(dirty, said):
    record = RunRecord("1", "p", "f", 0.0, git=GitState("c0ffee", "main", dirty))
    (pairs,) = run_tables.of(record)

    assert ("commit", f"c0ffee{said}") in pairs.rows


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        (EngineFacts("local", "0.8", "bubblewrap"), "local, bubblewrap 0.8"),
        (EngineFacts("bare", how="no sandbox"), "bare, no sandbox"),
        (EngineFacts("fake"), "fake"),
    ],
)
def test_an_engine_without_a_version_is_named_without_a_gap(engine, text):
    (pairs,) = run_tables.of(RunRecord("1", "/p", "f", 0.0, engine=engine))

    assert ("engine", text) in pairs.rows


def test_no_run_took_less_than_no_time():
    jumped = RunRecord("1", "/p", "f", 86_400.0, ended_at=4.0)
    begun = RunRecord("2", "/p", "f", 86_400.0)

    both = [run_tables.Listed(jumped, "", None), run_tables.Listed(begun, "", None)]
    shown = run_tables.table(both, now=10.0)

    took = shown.heads.index("took")
    assert [row[took] for row in shown.rows] == ["0.000 s", "0.000 s"]
    (head,) = run_tables.of(jumped)
    assert ("took", "0.000 s") in head.rows


def test_a_list_shows_the_op_time_without_a_profiler_if_there_is_one():
    plain = Inference((0.25, 0.5))
    profiled = Inference((2.0, 3.0), source=Source(under=("nvprof",)))

    def of(*found: Inference) -> float | None:
        command = CommandRecord(
            0, "./a", None, Outcome.OK, findings=Findings(inferences=found)
        )
        record = RunRecord("1", "/p", "f", 0.0, commands=(command,))
        return op_time_s(figures.networks(record))

    assert of(plain, profiled) == of(profiled, plain) == 0.75
    assert of(profiled) == 5.0
    assert of(Inference()) is None


def test_the_history_names_projects_only_if_they_are_not_the_one_it_stands_in():
    runs = [
        run_tables.Listed(RunRecord(f"{n}", at, "f", 60.0), "", 0)
        for n, at in enumerate(("/a/p", "/b/p", "/b/q"))
    ]

    assert "project" not in run_tables.table(runs[:1], 0.0, "/a/p").heads
    assert run_tables.table(runs[:1], 0.0, "/b").rows[0][-1] == "p"
    shown = run_tables.table(runs, 0.0, "/a/p")
    assert [row[-1] for row in shown.rows] == ["/a/p", "/b/p", "q"]


def test_a_list_has_the_year_of_a_date_only_if_it_is_not_this_one():
    noon = 12 * 3600.0
    assert day(noon, noon)[:4] == "Jan "
    assert day(noon, noon + 400 * 86_400)[:11] == "1970-01-01 "


def test_a_named_command_shows_its_name_and_its_command():
    commands = (Command("nvprof ./a.out\necho", "profile"), Command("./a.out"))
    spec = BuildSpec("rai_build.yml", image="x", commands=commands)
    table = plans.plan(
        spec, images.plan(spec, None), preparation.steps(spec, gpu=True), 0
    )[1]
    assert [row[-1] for row in table.rows] == ["profile: nvprof ./a.out ...", "./a.out"]
    kept = (CommandRecord(0, "nvprof ./a.out\necho", "profile", Outcome.OK),)
    shown = run_tables.of(RunRecord("1", "/p", "f", 0.0, commands=kept))[1]
    assert shown.rows[0][1] == "profile: nvprof ./a.out ..."
