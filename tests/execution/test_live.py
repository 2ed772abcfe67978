"""What a terminal shows while a run goes on, drawn by an emulator of one."""

from __future__ import annotations

import io

import pyte
import pytest

from runner.core import Findings, Inference, Machine, Reason, Stream, Verdict
from runner.core import events as ev
from runner.core.build_spec import Check
from runner.store import run_files, runs
from runner.store.paths import Home
from runner.terminal import console as live
from runner.terminal.console import Console

HERE = Machine("host", "Linux", "cpu", 2, 1 << 30, "3.12", "1")
BEGIN = ev.Created("0a1b", "/p", "f.yml", None, HERE, commands=3)


class Terminal(io.TextIOWrapper):
    """A stream that is a terminal, and the screen that it shows."""

    def __init__(self, width: int = 60) -> None:
        super().__init__(io.BytesIO(), "utf-8", newline="")
        self.screen = pyte.Screen(width, 30)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        super().flush()
        if isinstance(self.buffer, io.BytesIO):
            data = self.buffer.getvalue()
            self.buffer.seek(0)
            self.buffer.truncate()
            self.written += data
            self._stream.feed(data.replace(b"\n", b"\r\n"))  # as a terminal's line does

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    for name in ("NO_COLOR", "FORCE_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(live, "EVERY_S", 0)
    return Terminal()


@pytest.fixture
def watch(terminal, monkeypatch):
    """Return a console that shows on the terminal."""

    def watched(quiet: bool = False) -> Console:
        # Not earlier: pytest sets both streams when the test begins.
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setattr("sys.stdout", terminal)
        return Console(quiet)

    return watched


def play(console, *events, at=0.0):
    for number, event in enumerate(events):
        console.show(event, at + number)


def out(data, stream=Stream.STDOUT):
    return ev.Output(0, stream, data)


STARTED = ev.CommandStarted(0, "python long.py --with-a-long-option --and-another-one")


def test_a_silent_command_shows_its_number_time_cpu_memory_and_text(terminal, watch):
    console = watch()
    play(console, BEGIN, STARTED, ev.Tick(0, 1.0, 0.5, 1 << 20))
    assert terminal.lines[-1] == (
        "✱ Command 1 of 3 · 1 s · CPU 50% · 1.0 MiB · python long.p…"
    )
    play(console, ev.Tick(0, 3.0, 4.5, 3 << 30), at=5)
    assert terminal.lines[-1].startswith("✱ Command 1 of 3 · 3 s · CPU 200% · 3.0 GiB")
    assert len(terminal.lines) == 3
    play(console, ev.Tick(0, 200.0), at=9)
    assert terminal.lines[-1].startswith("✱ Command 1 of 3 · 3 min 20 s · python")
    console.show(out(b"text\n"), 6)
    assert terminal.lines[-2:] == ["  --and-another-one", "text"]


@pytest.mark.parametrize(
    "printed", [b"no newline", b"\r 50%", b"text\n\r 1%", b"\x1b[31mred", b"x\n "]
)
def test_it_never_comes_into_a_line_that_the_program_has_not_ended(
    terminal, watch, printed
):
    console = watch()
    play(console, BEGIN, STARTED, out(printed), ev.Tick(0, 9.0), out(b"!\n"))
    assert b"1 of 3" not in terminal.written
    assert terminal.lines[-1].endswith("!")


def test_a_program_that_goes_on_in_a_colour_is_not_interrupted(terminal, watch):
    console = watch()
    play(console, BEGIN, STARTED, out(b"\x1b[31;1mone\n"), ev.Tick(0, 9.0))
    assert b"1 of 3" not in terminal.written
    play(console, out(b"two\n"), at=9)
    rows = [terminal.screen.buffer[n][0] for n in range(30)]
    assert [c.fg for c in rows if c.data in "ot"] == ["red", "red"]
    console.line("own", "green")
    assert "own" in terminal.lines[-1]
    row = terminal.screen.buffer[len(terminal.lines) - 1]
    assert (row[2].fg, row[2].bold) == ("default", False)


def test_a_busy_program_is_left_alone(terminal, watch):
    console = watch()
    console.show(BEGIN, 0)
    console.show(STARTED, 1)
    console.show(out(b"text\n"), 5)
    console.show(ev.Tick(0, 4.0), 5.1)
    assert terminal.lines[-1] == "text"


def test_output_that_goes_elsewhere_leaves_it_there(
    terminal, watch, monkeypatch, tmp_path
):
    with (tmp_path / "out").open("w") as file:
        watch()
        monkeypatch.setattr("sys.stdout", file)
        console = Console()
        console._here[Stream.STDOUT] = False  # an emulator has no file number
        play(console, BEGIN, STARTED, ev.Tick(0, 9.0), out(b"text\n"))
    assert terminal.lines[-1].startswith("✱ Command 1 of 3")
    assert (tmp_path / "out").read_text() == "text\n"


@pytest.mark.parametrize(("quiet", "kind"), [(False, "dumb"), (True, "xterm")])
def test_nothing_is_drawn_again_if_quiet_or_where_it_cannot_be(
    terminal, watch, monkeypatch, quiet, kind
):
    monkeypatch.setenv("TERM", kind)
    console = watch(quiet)
    play(console, BEGIN, STARTED, ev.Progress("pack", 1, 2), ev.Tick(0, 9.0, 1.0, 1))
    console.close()
    assert b"\r" not in terminal.written
    assert b"of 3" not in terminal.written


def test_a_step_shows_its_progress_as_a_bar(terminal, watch):
    console = watch()
    play(console, BEGIN, ev.Progress("upload", 512, 1024), ev.Progress("pull", 9, None))
    assert terminal.lines == ["✱ pull · 9 B"]
    assert "upload ━━━━━━━━━━━━──────────── 50% · 512 B of 1.0 KiB" in (
        terminal.written.decode()
    )
    console.close()
    assert terminal.lines == []


def test_nothing_that_a_program_writes_looks_like_a_line_of_rai(terminal, watch):
    console = watch()
    play(console, BEGIN, STARTED)
    before = len(terminal.lines)
    fake = "✱ Run 0a1b done\nx\r✱ a\n" + " " * 60 + "✱ b\n\x1b[2;1H✱ c\n\x1b[8m"
    play(console, out(fake.encode()), out(b"\xe2"), out(b"\x9c", Stream.STDERR))
    play(console, out(b"\x9c\xb1 d\n"), ev.CommandFinished(0, 0, 1.0))
    shown = terminal.lines[before:]
    assert [line for line in shown if "✱" in line] == [
        "✱ Command 1 of 3 done in 1.0 s."
    ]
    assert r"\u2731 Run 0a1b done" in shown
    assert r"\u2731 d" in terminal.written.decode(errors="replace")


FOUND = Findings(inferences=(Inference(op_times_s=(0.25, 0.5), correctness=0.8898),))
ENDS = (
    ev.CommandStarted(0, "python one.py"),
    ev.CommandFinished(0, 0, 2.0),
    ev.Found(0, FOUND),
    ev.CommandStarted(1, "python two.py"),
    ev.CommandFinished(1, 3, 1.0),
    ev.CommandSkipped(2, "make", "command 2 failed"),
    ev.Finished(Verdict(True, False, None, Reason.COMMAND_FAILED, "why")),
)
SUMMARY = [
    "✱ 1  ok      2.0 s  python one.py  op time 750.0 ms, correctness 0.8898",
    "✱ 2  failed  1.0 s  python two.py  exit status 3",
    "✱ Run 0a1b ended: command failed: why",
    "✱ Read the output of each command that failed. See what it printed: rai logs 0a1b",
]


def test_the_end_tells_each_commands_result_and_where_to_look(capfd):
    play(Console(), BEGIN, *ENDS)
    assert capfd.readouterr().err.splitlines()[-4:] == SUMMARY


def test_the_summary_of_many_commands_is_short_and_has_all_that_failed(capfd):
    many = []
    for n in range(30):
        many += [ev.CommandStarted(n, "x"), ev.CommandFinished(n, n in (7, 28), 1.0)]
    done = ev.Finished(Verdict(True, True, None, Reason.DONE))
    play(Console(), BEGIN, *many, done)
    lines = capfd.readouterr().err.splitlines()[-11:]
    assert sum("failed" in line for line in lines) == 2
    assert lines[-3].startswith("✱ 29  failed")
    assert lines[-2] == "✱ 21 more ended well."


def test_a_tick_of_a_command_that_has_ended_is_not_shown(terminal, watch):
    console = watch()
    play(console, BEGIN, STARTED, ev.CommandFinished(0, 0, 1.0), ev.Tick(0, 9.0))
    assert terminal.lines[-1].endswith("done in 1.0 s.")


def test_what_a_command_uses_is_left_for_another_process_until_the_run_ends(tmp_path):
    paths = runs.create(Home(tmp_path))
    assert run_files.read_latest(paths) is None
    tick = ev.Tick(0, 9.0, 1.5, 1 << 20)
    with runs.Recorder(paths) as recorder:
        for event in (BEGIN, STARTED, tick):
            recorder.keep(event)
        found = run_files.read_latest(paths)
        assert found and found[1] == tick
        assert b"Tick" not in paths.events.read_bytes()
        paths.latest.write_bytes(b"{half of")
        assert run_files.read_latest(paths) is None
    assert not paths.latest.exists()


def test_the_summary_names_a_limit_and_a_wrong_answer(capfd):
    check = Check("correctness 0.9", "0.1", False)
    ends = (
        ev.Checked(0, (check,)),
        ev.CommandStarted(1, "sleep 99"),
        ev.CommandFinished(1, 143, 9.0, reason=Reason.TIME_LIMIT),
        ev.Finished(Verdict(True, False, None, Reason.TIME_LIMIT, "why")),
    )
    console = Console()
    play(console, BEGIN, STARTED, ev.CommandFinished(0, 0, 2.0), *ends)
    lines = capfd.readouterr().err.splitlines()
    wrong, limit = lines[-4:-2]
    assert "✱ Wrong answer: expected correctness 0.9, found 0.1." in lines
    assert wrong.startswith("✱ 1  wrong       2.0 s  ")
    assert limit == "✱ 2  time limit  9.0 s  sleep 99"


def test_a_command_is_told_by_its_name_or_by_what_is_its_own(terminal, watch):
    console = watch()
    timed = ev.CommandStarted(0, "/usr/bin/time python $RAI_SOURCE_DIR/project/m1.py 9")
    play(console, BEGIN, timed, ev.Tick(0, 9.0))
    assert terminal.lines[-1].endswith(" · 9 s · python project/m1.py 9")
    play(console, ev.CommandStarted(1, "make -j", "the build"), ev.Tick(1, 2.0), at=9)
    assert terminal.lines[-1].endswith(" · 2 s · the build")


AGAIN = ev.Created("0a1b", "/p", "f.yml", None, HERE, commands=1, repeat=9)
FINAL = ev.CommandStarted(0, "./final", "final")


def repeat(index: int) -> ev.CommandStarted:
    return ev.CommandStarted(index, "./final", "final", 0, index)


def test_a_repeat_shows_its_round_and_nothing_that_it_prints(terminal, watch):
    console = watch()
    play(console, AGAIN, FINAL, out(b"first\n"), ev.CommandFinished(0, 0, 1.0))
    play(console, repeat(1), ev.Output(1, Stream.STDOUT, b"second\n"), at=9)
    play(console, ev.CommandFinished(1, 0, 1.0), ev.Found(1, FOUND), repeat(2), at=12)
    assert "first" in terminal.lines
    assert b"second" not in terminal.written
    assert terminal.lines[-1] == "✱ Round 3 of 9 · final"
    play(console, ev.Tick(2, 1.0), at=16)
    assert terminal.lines[-1] == "✱ Round 3 of 9 · 1 s · final"
    assert terminal.written.count(b"Repeating what is measured, 9 rounds") == 1


def test_a_repeat_that_fails_shows_the_end_of_what_it_printed(terminal, watch):
    console = watch()
    play(console, AGAIN, FINAL, ev.CommandFinished(0, 0, 1.0), repeat(1))
    for data in (b"early\n", *[b"late\n" * 100] * 100, b"the cause\n"):
        console.show(ev.Output(1, Stream.STDERR, data), 5.0)
    play(console, ev.CommandFinished(1, 3, 1.0), at=6)
    assert terminal.lines[-2:] == [
        "the cause",
        "✱ `./final` ended with exit status 3 after 1.0 s.",
    ]
    written = terminal.written
    assert b"Round 2 of 9: ./final" in written
    assert b"early" not in written
    assert 3000 < written.count(b"late") < 3500


def test_a_repeat_with_a_wrong_answer_shows_it_and_its_output(terminal, watch):
    console = watch()
    play(console, AGAIN, FINAL, ev.CommandFinished(0, 0, 1.0), repeat(1))
    check = Check("correctness 0.8", "correctness 0.1", False)
    play(console, ev.Output(1, Stream.STDOUT, b"odd\n"), at=5)
    play(console, ev.CommandFinished(1, 0, 1.0), ev.Checked(1, (check,)), at=6)
    assert terminal.lines[-3] == "odd"
    assert "Wrong answer: expected correctness 0.8" in terminal.lines[-2]


def test_plain_lines_tell_each_minute_which_round_it_is(terminal, watch, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = watch()
    play(console, AGAIN, FINAL, ev.CommandFinished(0, 0, 1.0))
    for number in range(1, 8):
        console.show(repeat(number), 30.0 * number)
        console.show(ev.CommandFinished(number, 0, 30.0), 30.0 * number + 29)
    rounds = [line for line in terminal.lines if line.startswith("✱ Round")]
    assert rounds == [f"✱ Round {n} of 9 · final" for n in (4, 6, 8)]
