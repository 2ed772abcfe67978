"""Comparing predictions with those in float64."""

import json
import os
import sys

import numpy as np
import pytest

from tests.kit import outside
from tests.kit.program import run_program
from tools.benchmarks import agreement, agreement_worker

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("compiled_once")]


def probabilities(*scores):
    raised = np.exp(np.array(scores, np.float64))
    return raised / raised.sum(axis=1, keepdims=True)


def test_another_class_differs_and_nearly_equal_scores_are_a_tie():
    gold = probabilities([1, 0, 0], [0, 1, 1 - 0.9e-5], [0, 1, 1 - 1.1e-5], [0, 2, 0])
    found = probabilities([1, 0, 0], [0, 1, 1.1], [0, 1, 1.1], [0, 0, 2])

    assert agreement_worker.differing(gold, found) == (2, 1)
    assert agreement_worker.differing(gold, gold) == (0, 0)


def test_a_class_that_float64_holds_impossible_differs():
    assert agreement_worker.differing(
        np.array([[1.0, 0.0]]), np.array([[0.4, 0.6]])
    ) == (1, 0)


def compared(*words, **environ):
    """Run the command as a process."""
    command = [sys.executable, agreement.WORKER, *words]
    return run_program(command, env={**os.environ, **environ})


def test_the_command_compares_what_is_named_and_says_what_is_missing():
    words = ["--edition", "2019fa", "--images", "150", "--backend", "numpy"]
    done = compared(*words)

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [row["backend"] for row in rows] == 2 * ["float64", "numpy"]
    assert all(row["differs"] == 0 and row["images"] == 150 for row in rows)
    assert len(rows[-1]["op_times_s"]) == 2


def test_a_backend_that_is_named_and_cannot_run_is_no_agreement():
    words = ["--edition", "2019fa", "--images", "10", "--backend", "cuda-tiled"]
    done = compared(*words, CUDA_VISIBLE_DEVICES="")

    assert done.returncode == 3
    assert "cannot use a GPU" in done.stderr


@pytest.mark.data
@pytest.mark.mxnet
def test_every_stored_model_classifies_every_image_alike_on_the_cpus_backends():
    words = ["--edition", "2017fa", "--edition", "2019fa"]
    words += [f"--backend={name}" for name in ("numpy", "c++", "mxnet")]
    done = compared(*words, RAI_DATA_DIR=outside.fashion_mnist())

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout
    assert len(rows) == 5 * 4, done.stderr
    assert all((row["images"], row["differs"]) == (10_000, 0) for row in rows)
    reached = {(row["edition"], row["model"]): row["accuracy"]["10000"] for row in rows}
    assert reached["2019fa", "ece408"] >= 0.8154
    assert reached["2017fa", "baseline"] >= 0.8673
    assert reached["2017fa", "ece408-high"] >= 0.8562
    assert abs(reached["2017fa", "ece408-low"] - 0.629) < 0.01


def test_damaged_weights_end_the_comparison_and_are_not_left_out(tmp_path):
    (tmp_path / "2019fa-ece408-0001.params").write_bytes(b"\x12\x01")
    words = ["--edition", "2019fa", "--images", "10"]
    done = compared(*words, RAI_MODELS_DIR=str(tmp_path))

    assert done.returncode == 1
    assert "2019fa-ece408-0001.params: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
