"""The command lines of the milestones' scripts."""

import pytest
from course import arguments, symbol
from course.arguments import Accepts
from course.editions import Model
from course.errors import UsageError
from course.graph import lenet

OURS = Accepts("m", own=True, backends=("mxnet", "numpy"), variants=True)
LIBRARYS = Accepts("m", own=False)


def read(*words, accepts=OURS):
    return arguments.read(accepts, words)


def test_nothing_said_means_all_images_in_the_default_edition():
    wanted = read()

    assert wanted.edition.name == "2019fa"
    assert wanted.model.name == "ece408"
    assert (wanted.size, wanted.backend, wanted.variants) == (10_000, None, ())
    assert read(accepts=LIBRARYS).model.name == "baseline"


@pytest.mark.parametrize("size", ["1", "100", "10000"])
def test_a_data_size_is_a_whole_number_of_images(size):
    assert read(size).size == int(size)


@pytest.mark.parametrize(
    "wrong", ["0", "10001", "-5", "1e3", "ten", "", "1_0", "१", "9" * 5000, "10 20"]
)
def test_only_whole_numbers_of_images_that_exist_are_data_sizes(wrong):
    with pytest.raises(UsageError, match=f"invalid data size `{wrong[:99]}"):
        read(*(wrong.split() or [""]))


@pytest.mark.parametrize(
    ("words", "model", "size"),
    [
        ([], "ece408-high", 10_000),
        (["ece408-low"], "ece408-low", 10_000),
        (["ece408-high", "100"], "ece408-high", 100),
        (["100"], "ece408-high", 100),
        (["--model", "ece408-low", "7"], "ece408-low", 7),
    ],
)
def test_the_edition_of_2017_names_the_model_before_the_data_size(words, model, size):
    wanted = read("--edition", "2017fa", *words)

    assert (wanted.model.name, wanted.size) == (model, size)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["2017fa", "ece408"], "edition 2017fa has no model `ece408`; it has baseline"),
        (["2017fa", "ece408-low", "all"], "invalid data size `all`"),
        (["2017fa", "--model", "ece408-low", "ece408-high"], "two models given"),
        (
            ["2017fa", "baseline"],
            "uses the library's convolution; this script runs ece",
        ),
        (["2018sp", "ece408"], "invalid data size `ece408`"),
        (["2018sp", "--model", "ece409"], "no model `ece409`; it has baseline, ece408"),
        (["2020sp"], "unknown edition `2020sp`; choose one of 2017fa, 2018sp"),
        (["2018sp", "--backend", "torch"], "invalid choice: 'torch'"),
        (["2018sp", "--bakend", "numpy"], "unrecognized arguments: --bakend"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(words, sentence):
    with pytest.raises(UsageError, match=sentence):
        read("--edition", *words)


def test_a_script_of_the_library_refuses_a_model_of_ours():
    with pytest.raises(
        UsageError, match="uses our own convolution; this script runs base"
    ):
        read("--model", "ece408", accepts=LIBRARYS)


def test_the_environment_names_the_edition_and_an_option_another(monkeypatch):
    monkeypatch.setenv("RAI_EDITION", "2018sp")

    assert read("10").edition.name == "2018sp"
    assert read("10", "--edition=2018fa").edition.name == "2018fa"


def test_variants_may_stand_anywhere_and_be_said_both_ways():
    wanted = read("--variant", "tiled", "100", "--variant=constant")

    assert (wanted.variants, wanted.size) == (("tiled", "constant"), 100)


def test_a_script_without_variants_or_backends_has_no_such_options():
    for option in ("--variant", "--backend"):
        with pytest.raises(UsageError, match="unrecognized arguments"):
            read(option, "numpy", accepts=LIBRARYS)


def test_a_symbol_file_goes_over_the_table_and_adds_to_it(tmp_path, monkeypatch):
    other = lenet((7, 3), hidden=20, classes=10, own=True)
    for name in ("ece408", "mine"):
        (tmp_path / f"2019fa-{name}-symbol.json").write_text(symbol.dumps(other))
    monkeypatch.setenv("RAI_MODELS_DIR", str(tmp_path))

    assert read().model.layers == other
    assert read().model.published == {100: 0.76, 1000: 0.767, 10_000: 0.7653}
    assert read("--model", "mine").model == Model("mine", other)
