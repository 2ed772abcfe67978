"""The training, on a tiny edition; needs the extra `train`."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import train
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, editions, network, params
from course.editions import Edition, Model
from course.graph import lenet

if find_spec("torch"):
    import torch
    from milestones import training

pytestmark = pytest.mark.train

MODEL = Model("ece408", lenet((3, 3), (4, 2), hidden=7, classes=10, own=True))
TINY = Edition("tiny", 13, (MODEL,))


@pytest.fixture
def bright_or_dark():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, 700).astype(np.uint8)
    images = rng.integers(0, 120, (700, 13, 13)) + 130 * labels[:, None, None]
    return images.astype(np.uint8), labels


@pytest.fixture(autouse=True)
def many_large_steps(monkeypatch):
    monkeypatch.setattr(training, "HELD_OUT", 100)
    monkeypatch.setattr(training, "BATCH", 20)
    monkeypatch.setattr(training, "PEAK_RATE", 0.01)


def test_stored_weights_see_raw_bytes_and_give_what_the_trained_network_gives(
    bright_or_dark,
):
    images, _ = bright_or_dark
    torch.manual_seed(1)
    net = training.build(TINY, MODEL).eval()

    stored = training.stored_weights(net, TINY, MODEL)

    built = network.assemble(TINY, MODEL, stored)
    found = NumpyCpu().infer(built, images).probabilities
    expected = torch.softmax(net(training.pixels(images)), dim=1).detach().numpy()
    assert {array.dtype for array in stored.values()} == {np.dtype("float16")}
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_training_learns_and_the_same_seed_learns_the_same(bright_or_dark):
    first, accuracy = training.train(TINY, MODEL, *bright_or_dark, seed=5, epochs=3)
    second, _ = training.train(TINY, MODEL, *bright_or_dark, seed=5, epochs=3)
    other, _ = training.train(TINY, MODEL, *bright_or_dark, seed=6, epochs=3)

    assert accuracy > 0.95
    assert all((first[name] == second[name]).all() for name in first)
    assert any((first[name] != other[name]).any() for name in first)


def test_a_model_that_is_to_be_no_better_stops_as_soon_as_it_is_as_good(bright_or_dark):
    model = replace(MODEL, no_better_than=0.6)

    _, low = training.train(TINY, model, *bright_or_dark, seed=5, epochs=3)

    _, high = training.train(TINY, MODEL, *bright_or_dark, seed=5, epochs=3)
    assert 0.6 <= low < high


def test_the_labels_are_of_what_was_trained_and_not_of_given_weights(
    bright_or_dark, tmp_path, monkeypatch
):
    own, given = tmp_path / "own", tmp_path / "given"
    edition, random = editions.DEFAULT, np.random.default_rng(5)
    model = edition.model("ece408")
    trained = {
        name: random.standard_normal(shape).astype(np.float16)
        for name, shape in network.shapes(edition, model).items()
    }
    for folder in (own, given):
        folder.mkdir()
    params.write(given / "2019fa-ece408.params", trained)
    monkeypatch.setenv("RAI_MODELS_DIR", str(given))
    monkeypatch.setattr(checkpoints, "MODELS", own)
    monkeypatch.setattr(train.dataset, "load", lambda part: bright_or_dark)
    monkeypatch.setattr(training, "train", lambda *_: (trained, 0.5))
    monkeypatch.setattr(training, "accuracy", lambda *_: 0.5)
    labelled = []
    monkeypatch.setattr(train.synthetic, "write_labels", labelled.append)
    monkeypatch.setattr("sys.argv", ["train.py", "--edition", "2019fa"])

    train.main()

    assert [network.path for network in labelled] == [own / "2019fa-ece408.params"]
    assert labelled[0].path.is_file()
