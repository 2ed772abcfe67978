"""The stand-in for GNU time, beside GNU time's own words and codes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.kit.program import run_program

pytestmark = pytest.mark.programs

PROGRAM = Path(__file__).resolve().parents[2] / "runner" / "engines" / "gnu_time.py"


def time(*words: str):
    argv = [sys.executable, "-I", "-S", str(PROGRAM), *words]
    return run_program(argv)


def test_by_default_it_says_the_two_lines_of_gnu_time():
    done = time("sleep", "0.1")
    assert re.fullmatch(
        r"\d+\.\d\duser \d+\.\d\dsystem 0:00\.[1-9]\delapsed \d+%CPU "
        r"\(0avgtext\+0avgdata \d+maxresident\)k\n"
        r"\d+inputs\+\d+outputs \(\d+major\+\d+minor\)pagefaults 0swaps\n",
        done.stderr,
    )
    assert done.returncode == 0
    assert done.stdout == ""


def test_the_portable_format():
    assert re.fullmatch(
        r"real 0\.\d\d\nuser 0\.\d\d\nsys 0\.\d\d\n", time("-p", "true").stderr
    )


def test_the_verbose_format_has_all_23_lines_and_the_command():
    lines = time("-v", "sh", "-c", "exit 0").stderr.splitlines()
    assert len(lines) == 23
    assert lines[0] == '\tCommand being timed: "sh -c exit 0"'
    assert lines[-1] == "\tExit status: 0"


@pytest.mark.parametrize(
    ("format", "said"),
    [
        (r"%x %C %% a\tb\nc\\", "0 true % a\tb\nc\\\n"),
        (r"%j \z", "?j ?\\z\n"),
        ("%X %D %K %p %t %W %s %r %k", "0 0 0 0 0 0 0 0 0\n"),
        ("", "\n"),
        ("end%", "end?\n"),
    ],
)
def test_a_format_is_filled_in(format: str, said: str):
    assert time("-f", format, "true").stderr == said


def test_every_figure_is_a_number():
    said = time("-f", "%e %U %S %M %F %R %I %O %w %c %Z", "true").stderr
    assert all(float(word) >= 0 for word in said.split())


@pytest.mark.parametrize(
    ("command", "code", "first"),
    [
        (["sh", "-c", "exit 3"], 3, "Command exited with non-zero status 3"),
        (["sh", "-c", "kill -9 $$"], 137, "Command terminated by signal 9"),
    ],
)
def test_a_bad_end_is_said_first(command, code: int, first: str):
    done = time("-f", "x", *command)
    assert done.returncode == code
    assert done.stderr.splitlines() == [first, "x"]


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/tmp", 126)])
def test_a_program_that_cannot_be_run_is_named(program: str, code: int):
    done = time("-f", "x", program)
    assert done.returncode == code
    assert done.stderr.startswith(f"time: cannot run {program}: ")


def test_it_writes_to_a_file_and_appends_to_it(tmp_path: Path):
    out = tmp_path / "times"
    time("-o", str(out), "-f", "one", "true")
    time("-a", "-o", str(out), "-f", "two", "true")
    assert out.read_text() == "one\ntwo\n"
    time("-o", str(out), "-f", "three", "true")
    assert out.read_text() == "three\n"


@pytest.mark.parametrize("words", [[], ["-z", "true"], ["-o", "/no/such/file", "true"]])
def test_wrong_words_end_with_125(words: list[str]):
    done = time(*words)
    assert done.returncode == 125
    assert done.stderr.startswith("time: ")


def test_options_after_the_command_are_the_commands_own():
    done = time("-f", "x", "echo", "-p", "-v")
    assert (done.stdout, done.stderr) == ("-p -v\n", "x\n")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.129, "0:00.12"), (754.56, "12:34.56"), (3723.9, "1:02:03")],
)
def test_elapsed_time_counts_minutes_and_hours(seconds: float, shown: str):
    from runner.engines import gnu_time

    assert gnu_time.elapsed(seconds) == shown
