"""The images for where there are none."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions
from course.resize import resize
from milestones import synthetic


@pytest.fixture(scope="module")
def ece408():
    return checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("ece408"))


@pytest.fixture
def copied(ece408, tmp_path):
    """The network with a copy of its files that a test may spoil."""
    for path in checkpoints.MODELS.glob("2019fa-ece408.*"):
        shutil.copy(path, tmp_path)
    return replace(ece408, path=tmp_path / ece408.path.name)


@pytest.mark.lengthy
def test_the_synthetic_set_is_the_same_everywhere(ece408):
    images = synthetic.images()

    assert images.shape == (10_000, 28, 28)
    assert images.dtype == np.uint8
    assert images[17].sum() == 44464
    assert synthetic.labels(ece408).shape == (10_000,)  # the checksum fits


def test_the_networks_labels_for_it_are_of_many_classes(ece408):
    counts = np.bincount(synthetic.labels(ece408), minlength=10)

    assert (counts > 0).sum() >= 7
    assert counts.max() < 5000


@pytest.mark.lengthy
def test_the_stored_labels_are_what_the_network_finds_in_float64(ece408):
    images = resize(synthetic.images()[:100], editions.DEFAULT.size)

    found = NumpyCpu(dtype=np.float64).infer(ece408, images).labels

    assert (found == synthetic.labels(ece408)[:100]).all()


def test_both_models_share_weights_and_so_labels(ece408):
    baseline = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("baseline"))

    assert (synthetic.labels(baseline) == synthetic.labels(ece408)).all()


@pytest.mark.parametrize("stale", ["images", "weights"])
def test_labels_of_other_images_or_weights_do_not_count(copied, stale):
    path = copied.path.with_suffix(".synthetic.json")
    kept = json.loads(path.read_text())
    path.write_text(json.dumps(kept | {stale: "0" * 64, "labels": ["7" * 20]}))

    assert (synthetic.labels(copied, 20) != 7).any()


@pytest.mark.parametrize("damaged", [True, False])
def test_weights_without_labels_are_held_to_what_float64_finds(copied, damaged):
    path = copied.path.with_suffix(".synthetic.json")
    path.write_text("{") if damaged else path.unlink()

    found = synthetic.labels(copied, 20)

    stored = synthetic.labels(
        replace(copied, path=checkpoints.MODELS / copied.path.name)
    )
    assert (found == stored[:20]).all()
