"""Whether a command's output is what the build file expects."""

from __future__ import annotations

import tracemalloc

import pytest

from runner.core import Stream
from runner.core.build_spec import Check
from runner.core.events import Output
from runner.figures.answers import CommandOutput
from runner.spec import buildfile

OUT, ERR = Stream.STDOUT, Stream.STDERR
EITHER = "{any_of: [{correctness: 0.8898}, {agreement: 1}]}"
AGREES = b"Agreement: 1.0 Model: m (synthetic)\n"


def checks(expect: str, *pieces: bytes | tuple[Stream, bytes]) -> tuple[Check, ...]:
    text = f"commands: {{build: [{{run: x, expect: {expect}}}]}}"
    spec, _ = buildfile.parse(text, "f.yml")
    output = CommandOutput(spec.commands[0], 1)
    for piece in pieces:
        stream, data = (OUT, piece) if isinstance(piece, bytes) else piece
        output.feed(Output(0, stream, data))
    return output.checks()


def holds(expect: str, *pieces: bytes | tuple[Stream, bytes]) -> bool:
    return all(check.holds for check in checks(expect, *pieces))


@pytest.mark.parametrize(
    ("wanted", "printed", "right"),
    [
        ("0.8898", "0.8898", True),
        ("0.8898", "0.889800012", True),
        ("0.88980", "0.889804", True),
        ("0.88980", "0.889806", False),
        ("0.8898", "8.898e-1", True),
        ("1", "1.0", True),
        ("0.9", "0.905", False),
        ("0.89", "0.8898", False),
        ('">=0.85"', "0.85", True),
        ('">=0.85"', "0.8499", False),
        ('">0.85"', "0.85", False),
        ('"<=0.85"', "0.85", True),
        ('"<0.85"', "0.85", False),
    ],
)
def test_a_figure_is_equal_to_the_digits_given_or_on_the_right_side(
    wanted, printed, right
):
    line = f"Correctness: {printed} Model: ece408\n".encode()

    assert holds(f"{{correctness: {wanted}}}", line) is right


def test_what_was_expected_and_what_was_found_is_told():
    (check,) = checks("{correctness: 0.8898}", b"Correctness: 0.1 Model: m\n")

    assert (check.expected, check.found) == ("correctness 0.8898", "correctness 0.1")
    assert str(check.place) == "f.yml:1:51"


@pytest.mark.parametrize("expect", ["{correctness: 1}", "{output: x}", EITHER])
def test_what_was_not_printed_is_wrong(expect):
    (check,) = checks(expect)

    assert (check.found, check.holds) == ("", False)


def test_every_figure_must_hold():
    right, wrong = b"Correctness: 0.8898\n", b"Correctness: 0.1\n"

    assert holds("{correctness: 0.8898}", right, right)
    for order in ((wrong, right, right), (right, wrong, right), (right, right, wrong)):
        assert not holds("{correctness: 0.8898}", *order)


def test_one_wrong_figure_among_thousands_is_not_lost():
    right = b"Correctness: 0.8898 Model: m\n" * 3000

    (check,) = checks("{correctness: 0.8898}", right, b"Correctness: 0.1\n", right)
    assert check.found == "correctness 0.1"


@pytest.mark.parametrize("figure", [b"nan", b"1.5", b"-0.1", b"", b"0.8898%"])
def test_a_line_that_has_no_share_is_wrong_too(figure):
    lines = b"Correctness: 0.8898 Model: m\nCorrectness: " + figure + b"\n"

    (check,) = checks("{correctness: 0.8898}", lines)
    assert not check.holds
    assert check.found.startswith("Correctness:")


def test_the_two_streams_count_alike():
    line = b"Correctness: 0.8898 Model: m\n"

    assert holds("{correctness: 0.8898}", (ERR, line))
    assert not holds("{correctness: 0.8898}", line, (ERR, b"Correctness: 0.1\n"))
    assert holds("{output: warning}", b"x\n", (ERR, b"a warning\n"))


@pytest.mark.parametrize(
    ("printed", "right"),
    [
        (b"Correctness: 0.8898 Model: m\n", True),
        (AGREES, True),
        (b"Agreement: 0.9 Model: m (synthetic)\n", False),
        (b"Correctness: 0.1 Model: m\n" + AGREES, False),
        (b"EvalMetric: {'accuracy': 0.8898}\n", False),
    ],
)
def test_of_alternatives_one_must_hold_and_none_may_be_wrong(printed, right):
    assert holds(EITHER, printed) is right


def test_a_figure_of_synthetic_images_is_no_correctness():
    printed = b"Loading synthetic data... done\nCorrectness: 0.8898 Model: m\n"

    assert not holds("{correctness: 0.8898}", printed)


@pytest.mark.parametrize(
    "printed",
    [
        b"12 of 12 tests PASSED",
        b"12 of \x1b[32m12\x1b[0m tests \x1b[1mPASSED\x1b[0m\r\n",
        b"working...\r12 of 12 tests PASSED\n",
        "✱ 12 of 12 tests PASSED ✱\n".encode(),
        b"\xff 12 of 12 tests PASSED\n",
    ],
)
def test_text_is_found_as_a_terminal_shows_it_however_it_comes(printed):
    found = []
    for size in (1, 7, 1000):
        pieces = [printed[i : i + size] for i in range(0, len(printed), size)]
        expect = r'{output: [12 of 12 tests, "/\\d+ of \\d+ tests P\\w+/"]}'
        found += [check.found for check in checks(expect, *pieces)]

    assert all("12 of 12 tests PASSED" in line for line in found)
    assert not any("\x1b" in line or "working" in line for line in found)


def test_a_match_is_within_one_line():
    lines = b"Test\nPASSED\n"

    assert not holds(r'{output: "/Test\\sPASSED/"}', lines)
    assert not holds("{output: '/Test[^x]PASSED/'}", lines)
    assert holds("{output: ['/^PASSED$/', '/^Test$/']}", lines)
    assert not holds("{output: '/^ASSED/'}", lines)


def test_text_between_blocks_of_output_is_found():
    filler = b"some line of output\n" * 5000

    assert holds("{output: [needle, /ne+dle/]}", filler, b"a nee", b"dle\n", filler)


def test_the_line_that_is_kept_is_short():
    (check,) = checks("{output: x}", b"x" * 100_000)

    assert len(check.found) == 200


@pytest.mark.parametrize(
    "pattern", ["(a+)+b$", "(a|a)*b", "(a|b)*a(a|b){20}c", "(?:a?){30}a{30}b"]
)
def test_a_hostile_expression_does_not_hang(pattern):
    """With Python's own `re` these would take longer than anybody can wait."""
    assert not holds(f"{{output: '/{pattern}/'}}", b"a" * 30_000 + b"!\n")


def test_searching_takes_little_memory():
    line = b"a line that never ends " * 3000
    text = "commands: {build: [{run: x, expect: {output: [needle, /n.*le/]}}]}"
    spec, _ = buildfile.parse(text, "f.yml")
    output = CommandOutput(spec.commands[0], 1)
    output.feed(Output(0, OUT, line))

    tracemalloc.start()
    for _ in range(100):
        output.feed(Output(0, OUT, line))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 << 20
    assert [check.holds for check in output.checks()] == [False, False]


def test_what_was_not_searched_is_said_with_an_answer_that_was_not_found():
    noise = [b"some line\n" * 100_000] * 10
    end = b"PASS\nCorrectness: 0.8898 Model: m\n"

    for wanted in ("{output: absent}", "{agreement: 1}"):
        (check,) = checks(wanted, *noise, end)
        assert check.found == "1.5 MiB of the output were not searched"
    assert holds("{output: PASS}", *noise, end)
    assert holds("{correctness: 0.8898}", *noise, end)
