"""What reports and rai's own lines look like within a terminal's width."""

from __future__ import annotations

import re

import pytest

from runner.report.blocks import Pairs, Table
from runner.terminal.console import own
from runner.terminal.layout import lines, rows, tone
from runner.terminal.streams import Look, Tone, cells, cut, look, wrapped

COMMAND = "/usr/bin/time python $RAI_SOURCE_DIR/project/m1.1.py"
WHY = "skipped: needs a GPU, and this run has none"
COMMANDS = Table(
    "Commands",
    ("#", "command", "outcome", "exit", "wall"),
    (
        ("1", COMMAND, "ok", "0", "12.3 s"),
        ("2", "python 界界界.py", "command_failed", "3", "0.1 s"),
        ("3", COMMAND.replace("m1.1", "m1.2"), WHY, "", ""),
    ),
    frozenset({0, 3, 4}),
)


def text(block, width, colour=False):
    return lines(block, Look(colour, width))


def words(found):
    return sorted(" ".join(found).split())


def test_a_table_for_a_file_has_each_row_in_one_line():
    shown = text(COMMANDS, None)
    assert len(shown) == 5
    assert COMMAND in shown[2] and WHY in shown[4]


def test_a_table_is_wrapped_between_words_and_loses_none():
    shown = text(COMMANDS, 72)
    assert shown == [
        "Commands",
        "#  command                          outcome                 exit    wall",
        "1  /usr/bin/time python             ok                         0  12.3 s",
        "   $RAI_SOURCE_DIR/project/m1.1.py",
        "2  python 界界界.py                 command_failed             3   0.1 s",
        "3  /usr/bin/time python             skipped: needs a GPU,",
        "   $RAI_SOURCE_DIR/project/m1.2.py  and this run has none",
    ]


@pytest.mark.parametrize("width", [20, 24, 40, 60, 79, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_nothing_is_cut(width):
    shown = text(COMMANDS, width)
    assert max(map(cells, shown)) <= width
    everything = re.sub(r"\s", "", "".join(shown))
    for row in COMMANDS.rows:
        for cell in (row[1], row[2], row[4]):
            if width >= 60:
                assert set(cell.split()) <= set(" ".join(shown).split())
            assert set(cell) - {" "} <= set(everything)


def test_a_column_without_room_goes_below_its_row():
    shown = text(Table("", ("run", "project"), (("1a2b", "/home/me/a-project"),)), 21)
    assert shown == ["run", "1a2b", "      /home/me/a-", "      project"]


def test_an_empty_column_takes_no_room_where_there_is_little():
    table = Table("", ("run", "tag", "project"), (("1a2b", "", "/home/me/x"),))
    assert text(table, 18) == ["run   project", "1a2b  /home/me/x"]


def test_names_and_values_are_wrapped_with_an_indent():
    pairs = Pairs((("warning", "a b " * 12), ("", "more")))
    assert text(pairs, 40) == [
        "warning  a b a b a b a b a b a b a b a b",
        "         a b a b a b a b",
        "         more",
    ]


def test_rows_can_stand_without_heads():
    first, *_ = rows(COMMANDS, Look())
    assert first.startswith("1  /usr")


def test_results_are_in_colour_and_all_else_is_in_the_terminals_own():
    shown = text(COMMANDS, 120, colour=True)
    assert shown[0] == "\x1b[1mCommands\x1b[0m"
    assert "\x1b[32mok\x1b[0m" in shown[2]
    assert "\x1b[1;31mcommand_failed\x1b[0m" in shown[3]
    assert "\x1b[1;31m3\x1b[0m" in shown[3]
    assert "\x1b[2mskipped: needs a GPU, and this run has none\x1b[0m" in shown[4]
    assert COMMAND in shown[2]


@pytest.mark.parametrize(
    ("head", "value", "painted"),
    [
        ("exit", "0", Tone.GOOD),
        ("exit", "137", Tone.BAD),
        ("result", "ok, correctness 0.8898", Tone.GOOD),
        ("result", "wrong_answer", Tone.BAD),
        ("reason", "done (exit 0)", Tone.GOOD),
        ("outcome", "GPU fault", Tone.BAD),
        ("answer", "no", Tone.BAD),
        ("state", "note", Tone.PLAIN),
        ("state", "lost", Tone.BAD),
        ("name", "done", Tone.PLAIN),
        ("warning", "anything", Tone.CARE),
        ("result", "not accepted", Tone.BAD),
        ("not accepted", "anything", Tone.CARE),
    ],
)
def test_a_result_is_good_or_bad_by_its_first_word(head, value, painted):
    assert tone(head, value) is painted


@pytest.mark.parametrize(
    ("environ", "width", "seen"),
    [
        ({"TERM": "xterm"}, 100, Look(True, 100, True)),
        ({"TERM": "xterm", "NO_COLOR": "1"}, 80, Look(False, 80, True)),
        ({"TERM": "xterm", "NO_COLOR": ""}, 80, Look(True, 80, True)),
        ({"TERM": "dumb"}, 80, Look(False, 80, False)),
        ({"TERM": "xterm"}, None, Look()),
        ({"TERM": "xterm", "FORCE_COLOR": "1"}, None, Look(True, None, False)),
        ({"TERM": "xterm", "FORCE_COLOR": "0"}, 80, Look(False, 80, True)),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, None, Look()),
        ({"TERM": "xterm", "CI": "true"}, 80, Look(True, 80, False)),
        ({"TERM": "xterm", "CI": "false"}, 80, Look(True, 80, True)),
        ({"TERM": "xterm"}, 3, Look(True, 20, True)),
    ],
)
def test_the_environment_and_the_stream_say_what_can_be_shown(environ, width, seen):
    assert look(environ, width) == seen


def test_a_long_word_is_broken_at_a_separator_or_left_whole():
    path = "/home/me/.local/share/rai/runs/174d5fe1a8/build.tar.zst"
    assert wrapped(f"is in {path}", 30) == [
        "is in",
        "/home/me/.local/share/rai/",
        "runs/174d5fe1a8/build.tar.zst",
    ]
    assert wrapped(f"is in {path}", 30, fold=False) == ["is in", path]


def test_wide_characters_count_twice():
    assert wrapped("界界 界界", 5) == ["界界", "界界"]
    assert wrapped("界界界", 5) == ["界界", "界"]
    assert cut("界界界", 5) == "界界…"
    assert wrapped("界", 1) == ["界"]


def test_only_the_first_line_of_an_own_line_has_the_mark():
    text = "Running a\n✱ Run 1 done\x1b[2J"
    assert own(text, "green", Look()) == "✱ Running a\n  \\u2731 Run 1 done\\x1b[2J\n"
    assert own(text, "green", Look(True, 80)) == (
        "\x1b[0m\x1b[1;32m✱\x1b[0m Running a\n  \\u2731 Run 1 done\\x1b[2J\n"
    )


def test_an_own_line_is_wrapped_with_an_indent_on_a_terminal_only():
    text = "Warning: the words of this line do not fit"
    assert own(text, "", Look()) == f"✱ {text}\n"
    assert own(text, "", Look(width=24)) == (
        "✱ Warning: the words of\n  this line do not fit\n"
    )
    assert own("  an item that does not fit", "", Look(width=20)) == (
        "✱   an item that\n    does not fit\n"
    )


def test_an_aside_goes_below_its_row_before_any_other_column_is_narrowed():
    rows = (("1a2b", "ok, correct", "a few words"), ("2b3c", "ok", ""))
    table = Table("", ("run", "result", "note"), rows, asides=frozenset({2}))
    assert text(table, 24) == [
        "run   result",
        "1a2b  ok, correct",
        "      a few words",
        "2b3c  ok",
    ]
    assert text(table, 40)[1] == "1a2b  ok, correct  a few words"
