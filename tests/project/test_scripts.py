"""The milestones' scripts, as a job runs them: from a copied folder, by name."""

import gzip
import os
import re
import shutil
import signal
import sys

import checkpoints
import pytest

from tests import outside
from tests.program import run_program

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("compiled_once")]

PROJECT = checkpoints.MODELS.parent
OP_TIME = r"Op Time: \d+\.\d{6}\n"


@pytest.fixture(scope="module")
def src(tmp_path_factory):
    """A project folder without a data folder beside it."""
    copied = tmp_path_factory.mktemp("job") / "src" / "project"
    shutil.copytree(PROJECT, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


@pytest.fixture
def script(src, tmp_path):
    def run(name, *arguments, data=None, **more):
        environ = {k: v for k, v in os.environ.items() if k != "RAI_DATA_DIR"} | more
        if data is not None:
            environ["RAI_DATA_DIR"] = str(data)
        return run_program(
            [sys.executable, src / name, *arguments], cwd=tmp_path, env=environ
        )

    return run


@pytest.mark.cpp
def test_milestone_2_1_prints_the_courses_lines_in_the_courses_order(script, pictures):
    done = script("m2.1.py", "100", "--backend", "numpy", data=pictures)

    assert done.stderr == ""
    assert done.returncode == 0
    lines = (
        "Loading fashion-mnist data... done\n"
        "Loading model... done\n"
        "New Inference\n"
        f"{OP_TIME}{OP_TIME}"
        r"Correctness: 0\.\d{1,2} Model: ece408" + "\n"
    )
    assert re.fullmatch(lines, done.stdout)
    assert float(done.stdout.split()[-3]) >= 0.85


@pytest.mark.data
def test_milestone_2_1_is_as_right_as_it_promises_on_the_published_images(script):
    done = script("m2.1.py", "100", data=outside.fashion_mnist())

    assert float(done.stdout.split()[-3]) >= 0.85


@pytest.mark.cpp
@pytest.mark.parametrize("data", [None, "/nowhere"])
def test_without_images_milestone_2_1_says_agreement_and_never_correctness(
    script, data
):
    done = script("m2.1.py", "100", "--backend", "numpy", data=data)

    assert done.stderr == ""
    assert re.fullmatch(
        "Loading synthetic data... done\n"
        "Loading model... done\n"
        "New Inference\n"
        f"{OP_TIME}{OP_TIME}"
        r"Agreement: 1\.0 Model: ece408 \(synthetic\)" + "\n",
        done.stdout,
    )


def test_without_images_milestone_1_1_prints_no_accuracy(script):
    assert script("m1.1.py", "1", data="/nowhere").stdout == (
        "Loading synthetic data... done\n"
        "Loading model... done\n"
        "New Inference\n"
        "Agreement: 1.0 Model: baseline (synthetic)\n"
    )


def package(folder, text=""):
    """Put a package of MXNet's name there, which is found before any other."""
    (folder / "mxnet").mkdir()
    (folder / "mxnet" / "__init__.py").write_text(text)
    return str(folder)


def test_without_a_compiler_numpy_takes_over_and_says_why_once(script, tmp_path):
    found = package(tmp_path)

    done = script("m2.1.py", "1", data="/nowhere", PYTHONPATH=found, PATH="", CXX="")

    assert done.returncode == 0
    assert done.stderr == (
        "m2.1.py: NumPy runs the network and convolves: no C++ compiler found "
        "(g++, c++, clang++); install one, or set CXX\n"
    )


def test_with_a_compiler_that_fails_each_librarys_failure_is_said(script, tmp_path):
    found = package(tmp_path)
    (tmp_path / "c++").write_text('#!/bin/sh\ncase "$*" in *-dM*) ;; *) exit 4; esac\n')
    (tmp_path / "c++").chmod(0o755)

    done = script(
        "m2.1.py", "1", data="/nowhere", PYTHONPATH=found, PATH=str(tmp_path), CXX=""
    )

    failed = f"{tmp_path}/c++ exited with status 4"
    assert done.returncode == 0
    assert done.stderr == (
        f"m2.1.py: NumPy runs the network: cannot build New: {failed}; "
        f"NumPy convolves: cannot build convolution: {failed}\n"
    )


def test_without_mxnet_milestone_1_1_says_what_runs_the_network(script, tmp_path):
    found = package(tmp_path, "raise OSError('none here')")

    done = script("m1.1.py", "1", data="/nowhere", PYTHONPATH=found)

    assert done.returncode == 0
    assert re.fullmatch("m1.1.py: NumPy runs the network: MXNet .*\n", done.stderr)


@pytest.mark.parametrize("name", ["m1.1.py", "m1.2.py", "m2.1.py"])
def test_a_data_size_that_is_none_is_a_usage_error_in_one_sentence(name, script):
    done = script(name, "10001")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"{name}: invalid data size `10001`; expected a whole number from 1 to 10000\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--epochs", "0"], "invalid count `0`; expected a whole number above 0"),
        (["--edition", "2020sp"], "unknown edition `2020sp`"),
        (["--model", "none"], "edition 2019fa has no model `none`"),
    ],
)
def test_a_training_that_cannot_be_is_a_usage_error(words, sentence, script):
    done = script("train.py", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"train.py: {sentence}")
    assert done.stderr.count("\n") == 1


def test_an_interrupted_script_ends_by_the_signal_without_a_traceback(src):
    done = run_program(
        [
            sys.executable,
            "-c",
            "import milestone, os, signal\n"
            # A shell's background jobs ignore it, and we may be one.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "milestone.run(lambda: os.kill(os.getpid(), signal.SIGINT))",
        ],
        cwd=src,
    )

    assert done.stderr == ""
    assert done.returncode == -signal.SIGINT


def test_damaged_images_end_the_script_and_are_not_replaced(script, tmp_path):
    name = "t10k-images-idx3-ubyte.gz"
    (tmp_path / name).write_bytes(gzip.compress(b"408 " * 25))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(bytes(8))

    done = script("m2.1.py", data=tmp_path)

    assert done.returncode == 1
    assert done.stdout == "Loading fashion-mnist data...\n"
    assert re.fullmatch(f"m2.1.py: .*{name}: not an IDX file of bytes.*\n", done.stderr)


def test_more_images_than_the_set_has_are_a_usage_error(script, tmp_path):
    images = b"\0\0\x08\x03\0\0\0\x05\0\0\0\x1c\0\0\0\x1c" + bytes(5 * 28 * 28)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(images)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(
        b"\0\0\x08\x01\0\0\0\x05" + bytes(5)
    )

    done = script("m2.1.py", "6", data=tmp_path)

    assert done.returncode == 2
    assert (
        done.stderr == "m2.1.py: data size 6 is too large: the test set has 5 images\n"
    )


def test_the_scripts_share_images_over_all_cores_and_not_blas_too(src):
    program = (
        "import milestone, cores, os; "
        "print(cores.SHARES == cores.COUNT, os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environ = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = run_program(
        [sys.executable, "-c", program], cwd=src, env=environ, check=True
    )

    assert done.stdout == "True 1\n"


@pytest.mark.parametrize(
    "name", ["m1.1.py", "m1.2.py", "m2.1.py", "m3.1.py", "m4.1.py", "final.py"]
)
def test_a_milestones_script_is_at_most_thirty_lines(name):
    assert len((PROJECT / name).read_text().splitlines()) <= 30
