"""The check-list of a milestone: what is there, and how to get what is not."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import Findings, Inference, Outcome
from runner.core.evidence import KernelLaunches, Trace
from runner.core.kernel_shapes import KernelShapes, KernelWork
from runner.core.milestone import ReportedKind
from runner.core.work import NO_GPU_HERE
from runner.report import document
from runner.report.blocks import Paragraph
from runner.report.document import checklist, sections
from runner.spec import milestones
from tests.kit import records
from tests.kit.documents import command, evidence, inference, run, table

PROFILER = "nvprof -f -o {}.nvprof --print-summary"


def whole(script: str, *variants: str):
    """Return the commands of a script that its milestone asks for."""
    stem = script.removesuffix(".py")
    sizes = [
        command(
            n,
            f"{script} {images}",
            *(inference(images, variant) for variant in variants or ("",)),
        )
        for n, images in enumerate((100, 1000, 10000))
    ]
    tables = (table("GPU activities", 95.0, 5.0), table("API calls", 100.0))
    before = PROFILER.format(stem)
    return [*sizes, command(3, script, before=before, profiles=tables)]


def checked(name: str, *commands, **facts):
    found = document.report(
        [evidence(run(*commands), **facts)], [milestones.find(name)]
    )
    (only,) = found.milestones
    return only.items


def missing(items) -> list[tuple[str, int | None]]:
    return [(item.kind, item.images) for item in items if not item.there]


def trace(script: str) -> Trace:
    size = (1, 1, 1)
    launched = KernelLaunches("k", 0, size, size, 8, 0, 0, 1, 0.5, 0.5, 0.5)
    name = f"{script.removesuffix('.py')}.nvprof"
    return Trace(name, "nvprof", launches=(launched,), spans=5)


KNOWN = KernelShapes(kernels=(KernelWork("k", flops=1e9, bytes=1e6),))


def test_all_is_there_after_the_commands_that_the_list_names():
    for name, script, variants in (
        ("m3", "m3.1.py", ()),
        ("m4", "m4.1.py", ("a", "b", "c")),
        ("final", "final.py", ("best",)),
    ):
        facts = {"traces": (trace(script),), "shapes": KNOWN}
        items = checked(name, *whole(script, *variants), **facts)

        assert missing(items) == []


def test_what_is_missing_has_the_command_that_would_give_it():
    items = checked("m3", *whole("m3.1.py")[:1])

    how = {(item.kind, item.images): item.how for item in items}
    assert how[ReportedKind.OP_TIMES, 100] == ""
    assert how[ReportedKind.OP_TIMES, 1000].endswith("/project/m3.1.py 1000")
    assert how[ReportedKind.TIMELINE, None].startswith("nvprof -f -o m3.1.nvprof")


def test_what_failed_is_a_command_to_run_again_wherever_the_programs_lie():
    line = "/usr/bin/time python $RAI_SOURCE_DIR/m3.1.py 100"
    failed = records.command(0, line, outcome=Outcome.FAILED, exit_code=1)

    items = checked("m3", failed)

    how = {(item.kind, item.images): item for item in items}
    again = how[ReportedKind.OP_TIMES, 100]
    assert (again.how, again.numbers) == ("rai run -p . --only 1", (1,))


def test_rates_need_what_the_project_says_of_its_kernels():
    items = checked("m4", *whole("m4.1.py", "a", "b", "c"), traces=(trace("m4.1.py"),))

    (item,) = [i for i in items if not i.there]
    assert item.kind is ReportedKind.ANALYSIS
    assert item.why == "rai-kernels.json says nothing of its kernels"


def test_a_command_without_a_number_counts_for_the_milestones_own():
    items = checked("m3", command(0, "m3.1.py", inference()))

    found = {item.images: item for item in items if item.kind is ReportedKind.OP_TIMES}
    assert found[10000].there
    assert "no number was given" in found[10000].found
    assert not found[100].there


def test_op_times_under_a_profiler_do_not_count():
    ran = command(0, "m3.1.py 100", inference(100), under=("nvprof",))

    found = [i for i in checked("m3", ran) if i.kind is ReportedKind.OP_TIMES]

    assert not found[0].there
    assert "under nvprof" in found[0].why


def test_fewer_variants_than_asked_for_are_missing():
    items = checked("m4", *whole("m4.1.py", "a", "b"))

    (item,) = [i for i in items if (i.kind, i.images) == (ReportedKind.OP_TIMES, 100)]
    assert not item.there
    assert item.why == "2 of 3 variants"


def test_agreement_on_synthetic_images_is_no_correctness():
    made_up = Inference((0.5,), None, "net", agreement=1.0)

    items = checked("m2", command(0, "m2.1.py", made_up))

    found = {item.kind: item for item in items}
    assert not found[ReportedKind.CORRECTNESS].there
    assert "synthetic" in found[ReportedKind.CORRECTNESS].why
    assert found[ReportedKind.CORRECTNESS].how.startswith("bring the data files")
    assert found[ReportedKind.CORRECTNESS].numbers == (1,)
    assert found[ReportedKind.OP_TIMES].there


def test_a_command_that_was_skipped_says_why():
    skipped = {"outcome": Outcome.SKIPPED, "exit_code": None, "wall_s": None}
    ran = replace(command(0, "m1.2.py", **skipped), why="left out by --only")

    found = [i for i in checked("m1", ran) if i.script == "m1.2.py"]

    assert {item.why for item in found[1:]} == {"left out by --only (command 1)"}
    assert found[1].how == "rai run -p . --only 1"


def without_gpu(*commands):
    lacking = {"outcome": Outcome.SKIPPED, "exit_code": None, "wall_s": None}
    return [
        replace(one, **lacking, findings=Findings(), why=NO_GPU_HERE)
        for one in commands
    ]


def test_what_lacks_a_gpu_is_said_shortly_and_what_to_do_once():
    skipped = without_gpu(*whole("m3.1.py"))
    report = document.report([evidence(run(*skipped))], [milestones.find("m3")])

    items = report.milestones[0].items
    found = next(one for one in sections.sections(report) if one.title == "Check-list")

    assert items[0].why == "needs a GPU (command 1)"
    assert items[0].how == "run where there is a GPU"
    counted, _, advice = found.parts
    assert counted == Paragraph("m3: 0 of 9 items are there.")
    assert advice == Paragraph("Commands 1 to 4: run where there is a GPU")


def test_commands_that_lack_the_same_are_named_together():
    others = [command(n, f"m3.1.py {n}") for n in (1, 5, 6, 7)]

    items = checked("m3", *without_gpu(*others))

    assert items[0].why == "needs a GPU (commands 2, 6 to 8)"
    assert items[0].how.endswith("/project/m3.1.py 100")
    assert items[0].numbers == ()


def test_a_script_that_no_command_runs_is_named():
    found = [i for i in checked("m1", command(0, "m1.1.py")) if i.script == "m1.2.py"]

    assert {item.why for item in found} == {"no command runs m1.2.py"}


def test_of_several_runs_one_that_has_it_is_enough():
    one = evidence(run(command(0, "m1.1.py"), name="aa"))
    other = evidence(run(command(0, "m2.1.py", inference()), name="bb"))

    found = document.report([one, other], [milestones.find("m2")]).milestones[0]

    assert [item.runs for item in found.items] == [("bb",)] * 3


def test_the_milestones_of_a_run_are_those_of_its_scripts_in_their_order():
    every = [milestones.find(name) for name in milestones.names()]
    commands = [command(0, "m2.1.py"), command(1, "final.py"), command(2, "m3.1.py")]
    left_out = replace(commands[1], outcome=Outcome.SKIPPED)

    found = checklist.concerning(every, [run(*commands)])
    some = checklist.concerning(every, [run(left_out, commands[2], only=("3",))])

    assert [one.name for one in found] == ["m2", "final", "m3"]
    assert [one.name for one in some] == ["m3"]
