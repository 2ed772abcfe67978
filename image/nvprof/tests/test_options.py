"""The command line is nvprof's."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvprof import manual
from nvprof.filter import KernelFilter
from nvprof.options import FLAGS, LISTS, VALUES, OptionError, Options, parse

from tests.kit import outside

BUILD_FILES = outside.path("rai_build")


def given_as(line, **more):
    return parse(line.split(), **more)


def test_without_options_all_is_the_application():
    assert given_as("python m3.1.py -o x 100") == Options(
        application=("python", "m3.1.py", "-o", "x", "100")
    )


@pytest.mark.parametrize(
    "line",
    [
        "-o t.nvprof app",
        "-ot.nvprof app",
        "--export-profile t.nvprof app",
        "--export-profile=t.nvprof app",
        "--output-profile t.nvprof app",
        "-o t.nvprof -- app",
        "--export-profile t.nvprof -- app",
    ],
)
def test_the_output_is_named_in_every_way_that_nvprof_had(line):
    assert given_as(line) == Options(application=("app",), output="t.nvprof")


def test_short_options_stand_together():
    found = given_as("-fo t.nvprof -su ms app")
    assert (found.force, found.output) == (True, "t.nvprof")
    assert (found.summary, found.unit) == (True, "ms")


def test_what_follows_two_hyphens_is_the_application():
    assert given_as("--csv -- --csv -f").application == ("--csv", "-f")


def test_real_build_files_lines_are_read():
    found = given_as(
        "--kernels ::forward:1 --analysis-metrics -o f.nvprof python m4.py"
    )
    assert found.kernels == (KernelFilter("", "", "forward", "1"),)
    assert found.analysis and found.counts and found.records
    found = given_as("--devices 0 --events branch,divergent_branch python m3.1.py")
    assert found.devices == {0}
    assert found.events == ("branch", "divergent_branch")
    found = given_as("--cpu-profiling on --export-profile t.nvprof -- ./m3")
    assert (found.output, found.application) == ("t.nvprof", ("./m3",))
    assert len(found.notes) == 1


@pytest.mark.data
def test_every_line_of_real_build_files_is_read():
    lines = {
        line.partition("nvprof ")[2].partition(" # ")[0]
        for path in BUILD_FILES.glob("*.yml")
        for line in path.read_text().splitlines()
        if re.search(r"[- ] nvprof ", line)
    }
    assert len(lines) > 20
    for line in lines:
        found = parse([*shlex.split(line), *(["app"] if line.endswith("--") else [])])
        assert found.application[0] in ("python", "app"), line


def test_lists_add_up():
    found = given_as("-m ipc,gld_efficiency --metrics ipc -e branch --kernels a app")
    assert found.metrics == ("ipc", "gld_efficiency", "ipc")
    assert len(given_as("--kernels a --kernels ::b:2 app").kernels) == 2


@pytest.mark.smoke
def test_every_option_of_nvprof_is_known_and_does_something_or_says_why():
    for option in manual.OPTIONS:
        value = option.allowed[0] if option.allowed else "1"
        words = [f"--{option.name}", *([value] if option.takes else [])]
        if option.name == "trace":
            words[1] = "gpu"
        found = parse([*words, "app"], lambda _: "")
        assert found.application == ("app",)
        if option.why:
            assert option.name in found.notes[0]
        else:
            assert not found.notes


def test_every_served_option_has_a_field_and_help():
    served = {each.name for each in manual.OPTIONS if not each.why}
    special = {"kernels", "options", "profile-from-start-off"}
    assert served == {*FLAGS, *VALUES, *LISTS, *special}
    text = manual.usage()
    for option in manual.OPTIONS:
        if option.name != "profile-from-start-off":
            assert f"--{option.name}" in text


@pytest.mark.parametrize(
    "line",
    [
        "--concurrent-kernels on",
        "--unified-memory-profiling off",
        "--system-profiling off",
        "--openacc-profiling=off",
        "--cpu-profiling off",
    ],
)
def test_an_option_that_asks_for_nothing_is_passed_over_in_silence(line):
    assert given_as(f"{line} app") == Options(application=("app",))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--foo app", "unrecognized option --foo"),
        ("--print-gpu-trce app", "did you mean --print-gpu-trace?"),
        ("-x app", "unrecognized option -x"),
        ("-fx app", "unrecognized option -fx"),
        ("-o", "needs a value"),
        ("--csv=1 app", "does not take a value"),
        ("-u hours app", "one of s, ms, us, ns, col, auto"),
        ("--profile-from-start maybe app", "one of on, off"),
        ("--devices zero app", "invalid value 'zero'"),
        ("--trace cpu app", "invalid value 'cpu'"),
        ("--timeout -1 app", "invalid value '-1'"),
        ("--kernels ( app", "invalid value '('"),
    ],
)
def test_a_mistake_is_told_with_its_option(line, said):
    with pytest.raises(OptionError, match=said.replace("(", r"\(").replace("?", r"\?")):
        given_as(line)


def test_options_may_stand_in_a_file():
    found = given_as("--options o.txt -u us app", read="--csv -o 'a b' # why".format)
    assert (found.csv, found.output, found.unit) == (True, "a b", "us")


def test_a_file_of_options_that_is_not_there_is_told():
    def read(path):
        raise FileNotFoundError(2, "No such file", path)

    with pytest.raises(OptionError, match=r"cannot read options from 'o\.txt'"):
        given_as("--options o.txt app", read=read)


@pytest.mark.parametrize(
    ("line", "tables", "records"),
    [
        ("", {"gpu", "api"}, False),
        ("-o f", set(), True),
        ("-o f -s", {"gpu", "api"}, True),
        ("--print-gpu-trace", set(), True),
        ("--print-api-trace -s", {"gpu", "api"}, True),
        ("--print-gpu-summary", {"gpu"}, False),
        ("--print-api-summary", {"api"}, False),
        ("--trace gpu", {"gpu"}, False),
        ("--profile-api-trace none", {"gpu"}, False),
        ("--print-summary-per-gpu -o f", {"gpu", "api"}, True),
        ("--kernels f", {"gpu", "api"}, True),
        ("--export-trace f", {"gpu", "api"}, True),
    ],
)
def test_what_is_printed_and_whether_records_are_needed(line, tables, records):
    found = given_as(line)
    assert found.tables == tables
    assert found.records is records


@given(st.lists(st.text(alphabet="-=abefgiknoprsuxCV:() 1", max_size=8), max_size=6))
def test_any_words_are_read_or_refused_in_a_sentence(words):
    try:
        found = parse(words)
    except OptionError as error:
        assert str(error)
    else:
        assert len(found.application) <= len(words)
