"""What a person sees of a run."""

from __future__ import annotations

import pytest

from runner.core import (
    EngineFacts,
    Gpu,
    GpuProcess,
    GpuState,
    GpuUse,
    GpuWay,
    ImageAction,
    ImageUsed,
    Limits,
    Machine,
    Profile,
    Reason,
    State,
    Stream,
    Verdict,
    quantities,
)
from runner.core import events as ev
from runner.report import phrases
from runner.terminal.console import Console
from runner.terminal.messages import ending, lines

FACTS = EngineFacts("local", "0.8", "bubblewrap 0.8", True, ("memory", "pids"))
IMAGE = ImageUsed("rai-build:abc", "sha256:1", ImageAction.BUILD, "nothing like it")
STORY: list[ev.Event] = [
    ev.EngineChosen(FACTS, Profile.STRICT, Limits(), "no Docker"),
    ev.Packing(),
    ev.Progress("pack", 10, 20),
    ev.Packed("ff", 2048, 3),
    ev.BuildStarted("rai-build:abc", "nothing like it is here", "classic builder"),
    ev.BuildOutput("Step 1/2 : FROM x\n"),
    ev.ImageReady(IMAGE),
    ev.Starting(),
    ev.CommandStarted(0, 'python -c "[bold]x[/]"'),
    ev.Output(0, Stream.STDOUT, b"Op Time: 0.1\n"),
    ev.Tick(0, 1.0),
    ev.Output(0, Stream.STDERR, b"\x1b[31mraw\x1b[2J\n"),
    ev.CommandFinished(0, 3, 2.5),
    ev.CommandSkipped(1, "make", "command 1 failed"),
    ev.Collected("/r/build.tar.zst", 10, 1),
]
SEEN = """\
✱ Using the local engine: strict profile, bubblewrap 0.8. Why: no Docker. Not enforced here: memory, pids.
✱ Packing your project directory.
✱ Project packed: 3 entries, 2.0 KiB.
✱ Building image rai-build:abc: nothing like it is here; classic builder.
Step 1/2 : FROM x
✱ Built image rai-build:abc.
✱ Using rai-build:abc as container image.
✱ Starting container.
✱ Running python -c "[bold]x[/]"
\x1b[31mraw\x1b[2J
✱ `python -c "[bold]x[/]"` ended with exit status 3 after 2.5 s.
✱ Skipping make (command 1 failed)
✱ Output files saved; get them with: rai pull r
"""  # noqa: E501 - the screen, whole


def test_a_gpu_is_told_once_with_its_state_and_whoever_else_computes_on_it():
    others = (GpuProcess(7, "python", 1 << 30), GpuProcess(8, ""))
    state = GpuState("GPU-1", 345, 1980, temperature_c=33, processes=others)
    gpu = Gpu("GPU-1", "A GPU", 0)
    use = GpuUse(GpuWay.NODES, (gpu,), "580.1", before=(state,))
    assert [text for text, _ in lines(ev.GpuGiven(use))] == [
        "Using A GPU (GPU-1, 345 of 1980 MHz, 33 °C), driver 580.1,"
        " by device nodes and the driver's libraries.",
        "Warning: others use this GPU, so times may be longer:"
        " python (7, 1.0 GiB), process (8)",
    ]
    assert lines(ev.GpuGiven(use, over=True)) == []


def test_a_log_shows_the_lines_of_the_original_and_the_raw_bytes(capfd):
    console = Console()
    for event in STORY:
        console.show(event)
    console.close()

    out, err = capfd.readouterr()
    assert out == "Op Time: 0.1\n"
    assert err == SEEN


HERE = Machine("h", "Linux", "cpu", 1, 1, "3.12", "0")
CREATED = ev.Created("r", "/p", "f.yml", None, HERE, commands=2)
NO_GPU = "needs a GPU, and this run has none"


def shown(capfd, *events: ev.Event) -> list[str]:
    console = Console()
    for event in events:
        console.show(event)
    return capfd.readouterr().err.splitlines()


def test_commands_skipped_in_a_row_are_one_line_for_each_reason(capfd):
    assert shown(
        capfd,
        ev.CommandSkipped(0, "nvprof ./a", NO_GPU, "profile"),
        ev.CommandSkipped(1, "./a\n./b", NO_GPU),
        ev.CommandSkipped(2, "./c", "left out by --only"),
        ev.CommandStarted(3, "./d"),
        ev.CommandSkipped(4, "./e", NO_GPU, "last"),
        ev.StateChanged(State.COLLECTING),
    ) == [
        "✱ Skipping 2 commands that need a GPU",
        "✱ Skipping ./c (left out by --only)",
        "✱ Running ./d",
        f"✱ Skipping last: ./e ({NO_GPU})",
    ]


def test_of_a_run_that_ended_before_its_commands_the_reason_comes_first(capfd):
    skipped = [ev.CommandSkipped(n, f"./{n}", ev.NOT_REACHED) for n in range(15)]
    message = "the run needs a GPU, but none is available"
    end = ev.Finished(Verdict(True, False, None, Reason.NO_GPU, message))

    first, second, *_ = shown(capfd, *skipped, end)

    assert first == "✱ Skipping 15 commands: no GPU"
    assert second.endswith(f"ended: no GPU: {message}")


def test_quiet_leaves_the_program_alone_to_speak_and_failures_to_be_told(capfd):
    console = Console(quiet=True)
    for event in STORY:
        console.show(event)
    console.close()

    out, err = capfd.readouterr()
    assert out == "Op Time: 0.1\n"
    assert err.splitlines() == [
        "\x1b[31mraw\x1b[2J",
        '✱ `python -c "[bold]x[/]"` ended with exit status 3 after 2.5 s.',
    ]


def test_output_can_be_sent_to_stderr_to_leave_stdout_to_the_record(capfd):
    console = Console(quiet=True, to_stderr=True)
    console.show(ev.Output(0, Stream.STDOUT, b"text\n"))

    assert capfd.readouterr() == ("", "text\n")


def test_a_line_of_rai_never_joins_an_unfinished_line_of_the_program(capfd):
    console = Console()
    console.show(ev.Output(0, Stream.STDERR, b"no newline"))
    console.show(ev.CommandFinished(0, 1, 0.5))

    _, err = capfd.readouterr()
    assert err.startswith("no newline\n✱ `` ended")


@pytest.mark.parametrize("reason", list(Reason))
def test_every_end_of_a_run_is_told_with_what_to_do(reason):
    finished = ev.Finished(Verdict(True, False, None, reason, "why"))

    said = ending("0a1b", finished, 3.0, whole=False)

    assert "0a1b" in said[0][0]
    if reason is not Reason.DONE:
        usage = reason is Reason.USAGE  # its message says all of it
        assert (phrases.words(reason) in said[0][0]) is not usage
    if reason not in (Reason.DONE, Reason.CANCELLED):
        assert said[1][0].startswith(reason.advice)
        assert said[1][0].endswith((": rai logs 0a1b", ": rai show 0a1b"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "0.012 s"),
        (4.23, "4.2 s"),
        (200, "3 min 20 s"),
        (120, "2 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (None, ""),
    ],
)
def test_a_time_span_reads_as_a_person_would_write_it(value, text):
    assert text == phrases.seconds(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")],
)
def test_a_size_reads_with_a_binary_unit(value, text):
    assert text == quantities.size(value)


def test_a_command_that_is_done_is_told_by_its_number_and_name(capfd):
    started = ev.CommandStarted(0, "cc a.c", "compile")

    said = shown(capfd, CREATED, started, ev.CommandFinished(0, 0, 1.5))

    assert said == ["✱ Running cc a.c", "✱ Command 1 of 2 (compile) done in 1.5 s."]


def test_of_a_cancelled_run_the_commands_without_a_turn_are_told_once(capfd):
    end = ev.Finished(Verdict(True, False, None, Reason.CANCELLED, "stopped"))
    skipped = [ev.CommandSkipped(n, f"./{n}", ev.STOPPED) for n in range(2)]

    said = shown(capfd, CREATED, *skipped, end)

    assert [line for line in said if "kip" in line or "./" in line] == [
        "✱ Skipping 2 commands: the run was cancelled"
    ]


def test_where_the_build_folder_is_unpacked_its_archive_is_not_told(capfd):
    console = Console(unpacks=True)
    console.show(ev.Collected("/r/build.tar.zst", 10, 1))
    assert capfd.readouterr().err == ""
