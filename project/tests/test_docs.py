"""The steps of docs/kernels.md, followed in a copy of the project."""

import os
import re
import shutil
import sys
from importlib.util import find_spec

import pytest
from course import checkpoints

from project.tests import copied
from tests.kit.program import run_program

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("compiled_once")]

PROJECT = checkpoints.MODELS.parent
DOCS = PROJECT.parent / "docs"
PAGE = (DOCS / "kernels.md").read_text()

# Stands in for training where PyTorch is not installed: weights of chance, stored where
# the training stores its own.
UNTRAINED = """
import sys
import numpy
from course import checkpoints, editions, network, params
edition = editions.edition(sys.argv[1])
model = edition.model(sys.argv[2])
rng = numpy.random.default_rng(1)
arrays = {
    name: rng.standard_normal(shape).astype("float16") / 300
    for name, shape in network.shapes(edition, model).items()
}
params.write(checkpoints.own_file(edition, model), arrays)
"""


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]


def commands(text):
    (block,) = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    return [line.split() for line in block.splitlines()]


@pytest.fixture
def copy(tmp_path):
    """A copy of the project, to which the changes that a text shows are made."""
    copied.project(tmp_path)
    shutil.copytree(DOCS / "kernels", tmp_path / "docs" / "kernels")

    def followed(text):
        for change in re.findall(r"^```diff\n(.*?)^```", text, re.M | re.S):
            patch(tmp_path, change)
        return tmp_path

    return followed


def patch(folder, change):
    """Apply a unified diff of one file, whose every hunk must fit one place."""
    path = folder / re.search(r"^\+\+\+ b/(\S+)$", change, re.M)[1]
    text = path.read_text()
    for hunk in re.split(r"^@@.*\n", change, flags=re.M)[1:]:
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] in " -")
        after = "".join(line[1:] for line in lines if line[0] in " +")
        assert text.count(before) == 1, f"docs/kernels.md: does not fit {path}:\n{hunk}"
        text = text.replace(before, after)
    path.write_text(text)


def run(folder, words, **environ):
    path = [str(folder / "project"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = run_program(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environ},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(folder, edition, model, words, pictures):
    """Train as the page says, or where that cannot be, store weights of chance."""
    assert words[1] == "project/train.py"
    if find_spec("torch"):
        run(folder, words[1:], RAI_DATA_DIR=pictures)
    else:
        run(folder, ["-c", UNTRAINED, edition, model])


@pytest.fixture
def with_kernel(copy):
    """A copy with the kernel that the page brings; its commands after that."""
    text = section("Add a kernel")
    folder = copy(text)
    bring, change, *others = commands(text)
    for words in (bring, change):
        done = run_program(words, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder, others


@pytest.mark.kernels
def test_a_kernel_brought_as_the_page_says_compiles_and_is_planned(with_kernel):
    folder, (compiled, on_gpu, _) = with_kernel

    printed = run(folder, compiled[1:])

    assert "conv_two_rows" in printed
    assert all(f" {target} " in printed for target in ("sm_75", "sm_80", "sm_90"))
    refused = run_program([sys.executable, *on_gpu[1:-1], "two_row"], cwd=folder)
    assert "choose from naive, two_rows, " in refused.stderr


@pytest.mark.gpu
def test_a_kernel_brought_as_the_page_says_is_right(with_kernel):
    folder, (_, on_gpu, _) = with_kernel

    ours = run(folder, on_gpu[1:]).splitlines()
    known = run(folder, ["project/m3.1.py", "1000"]).splitlines()

    assert "Variant: two_rows" in ours
    assert ours[-1] == known[-1]


@pytest.mark.slow
def test_a_model_brought_as_the_page_says_is_trained_and_run(copy, pictures):
    text = section("Add a model")
    folder = copy(text)
    (training, milestone) = commands(text)

    trained(folder, "2019fa", "wide", training, pictures)
    printed = run(folder, milestone[1:], RAI_DATA_DIR=pictures)

    assert re.search(r"^Correctness: 0\.\d+ Model: wide$", printed, re.M)
    assert len(re.findall(r"^Op Time: \d\.\d{6}$", printed, re.M)) == 2


@pytest.mark.slow
@pytest.mark.kernels
def test_an_edition_brought_as_the_page_says_is_trained_and_run(copy, pictures):
    text = section("Add an edition")
    folder = copy(text)
    (training, library, ours, kernels) = commands(text)

    trained(folder, "2026fa", "ece408", training, pictures)
    printed = run(folder, library[1:], RAI_DATA_DIR=pictures)
    share = re.search(r"'accuracy': (\S+)}", printed)[1]
    printed = run(folder, ours[1:], RAI_DATA_DIR=pictures)
    assert f"Correctness: {share} Model: ece408\n" in printed
    assert "-DSHAPE_K=3" in run(folder, kernels[1:])


def test_the_pages_name_every_edition_and_script():
    from course.editions import EDITIONS

    editions = (DOCS / "kernels" / "editions.md").read_text()
    assert [name for name in EDITIONS if f"| {name} " not in editions] == []
    scripts = [path.name for path in PROJECT.glob("m*.1.py")]
    assert [name for name in scripts if f"| `{name}` " not in PAGE] == []
