"""The milestones' scripts, as a job runs them: from a copied folder, by name."""

import gzip
import os
import re
import signal
import sys

import pytest
from course import checkpoints

from project.tests import copied
from tests.kit import outside
from tests.kit.program import run_program

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("compiled_once")]

PROJECT = checkpoints.MODELS.parent
OP_TIME = r"Op Time: \d+\.\d{6}\n"


@pytest.fixture(scope="module")
def src(tmp_path_factory):
    """A project folder without a data folder beside it."""
    return copied.project(tmp_path_factory.mktemp("job") / "src")


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
@pytest.mark.smoke
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
@pytest.mark.parametrize(
    ("name", "model", "times"), [("m2.1.py", "ece408", 2), ("m1.1.py", "baseline", 0)]
)
def test_without_images_a_milestone_says_agreement_and_never_correctness(
    script, data, name, model, times
):
    done = script(name, "100", "--backend", "numpy", data=data)

    assert done.stderr == ""
    assert re.fullmatch(
        "Loading synthetic data... done\n"
        "Loading model... done\n"
        "New Inference\n"
        f"{OP_TIME * times}"
        rf"Agreement: 1\.0 Model: {model} \(synthetic\)" + "\n",
        done.stdout,
    )


def package(folder, text=""):
    """Put a package of MXNet's name there, which is found before any other."""
    (folder / "mxnet").mkdir()
    (folder / "mxnet" / "__init__.py").write_text(text)
    return str(folder)


FAILED = r"/.*/c\+\+ exited with status 4"


@pytest.mark.parametrize(
    ("name", "mxnet", "programs", "said"),
    [
        (
            *("m2.1.py", "", "no programs"),
            r"NumPy runs the network and convolves: no C\+\+ compiler found "
            r"\(g\+\+, c\+\+, clang\+\+\); install one, or set CXX",
        ),
        (
            *("m2.1.py", "", "a compiler that fails"),
            f"NumPy runs the network: cannot build New: {FAILED}; "
            f"NumPy convolves: cannot build convolution: {FAILED}",
        ),
        ("m1.1.py", "raise OSError", "no programs", "NumPy runs the network: MXNet .*"),
    ],
)
def test_what_numpy_does_for_want_of_another_is_said_once(
    name, mxnet, programs, said, script, tmp_path
):
    found = package(tmp_path, mxnet)
    (tmp_path / programs).mkdir()
    if programs == "a compiler that fails":
        compiler = tmp_path / programs / "c++"
        compiler.write_text('#!/bin/sh\ncase "$*" in *-dM*) ;; *) exit 4; esac\n')
        compiler.chmod(0o755)
    path = str(tmp_path / programs)

    done = script(name, "1", data="/nowhere", PYTHONPATH=found, PATH=path, CXX="")

    assert done.returncode == 0
    assert re.fullmatch(f"{name}: {said}\n", done.stderr)


@pytest.mark.parametrize("name", ["m1.1.py", "m1.2.py", "m2.1.py"])
def test_a_data_size_that_is_none_is_a_usage_error_in_one_sentence(name, script):
    done = script(name, "10001")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"{name}: invalid data size `10001`; expected a whole number from 1 to 10000\n"
    )


def test_a_training_that_cannot_be_is_a_usage_error(script):
    done = script("train.py", "--epochs", "0")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "train.py: invalid count `0`; expected a whole number"
    )
    assert done.stderr.count("\n") == 1


def test_an_interrupted_script_ends_by_the_signal_without_a_traceback(src):
    done = run_program(
        [
            sys.executable,
            "-c",
            "import os, signal; from milestones import milestone\n"
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
    assert re.fullmatch(
        f"m2.1.py: .*{name}: not a big-endian IDX file of bytes.*\n", done.stderr
    )


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
        "from milestones import milestone; from course import cores; import os; "
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
@pytest.mark.smoke
def test_a_milestones_script_is_at_most_thirty_lines(name):
    assert len((PROJECT / name).read_text().splitlines()) <= 30
