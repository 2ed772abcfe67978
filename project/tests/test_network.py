"""The forward pass."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from backends.numpy_cpu import NumpyCpu
from course import checkpoints, dataset, editions, network, params
from course.editions import Edition, Model
from course.errors import ProjectError
from course.graph import lenet
from course.resize import resize

from project.tests.plain import gold
from tests.kit import outside

COURSE_MODEL = outside.path("course-models", "2019sp-ece408-0002.params")

SMALL_MODEL = Model("ece408", lenet((3, 3), (4, 2), hidden=7, classes=10, own=True))
SMALL = Edition("small", 13, (SMALL_MODEL,))


def small_weights():
    rng = np.random.default_rng(1)
    return {
        name: (rng.standard_normal(shape) / np.prod(shape[1:]) ** 0.5 / 30)
        for name, shape in network.shapes(SMALL, SMALL_MODEL).items()
    }


def small_images(count):
    return np.random.default_rng(2).integers(0, 256, (count, 13, 13), dtype=np.uint8)


def plainly(weights, image):
    """The probabilities of one image, layer after layer as they are told."""
    first = np.tanh(gold(image[None, None], weights["new0_weight"]))[0]
    pooled = np.array(
        [
            [
                [m[2 * r : 2 * r + 2, 2 * c : 2 * c + 2].max() for c in range(5)]
                for r in range(5)
            ]
            for m in first
        ]
    )
    flat = gold(pooled[None], weights["new1_weight"]).ravel()
    hidden = weights["fullyconnected0_weight"] @ flat + weights["fullyconnected0_bias"]
    last = weights["fullyconnected1_weight"] @ np.tanh(hidden)
    exponentials = np.exp(last + weights["fullyconnected1_bias"])
    return exponentials / exponentials.sum()


@pytest.mark.smoke
def test_a_forward_pass_is_its_layers_one_after_another():
    weights, images = small_weights(), small_images(3)
    small = network.assemble(SMALL, SMALL_MODEL, weights)

    found = NumpyCpu(dtype=np.float64).infer(small, images)

    expected = [plainly(weights, image) for image in images]
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-12)
    assert found.labels.tolist() == np.argmax(expected, axis=1).tolist()


@pytest.mark.parametrize("batch", [1, 2, 7, 20, 64])
def test_pieces_of_any_size_give_the_same_answer(batch):
    small = network.assemble(SMALL, SMALL_MODEL, small_weights())
    backend = NumpyCpu()
    backend.batch = batch

    found = backend.infer(small, small_images(20))

    expected = NumpyCpu(dtype=np.float64).infer(small, small_images(20))
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)


def test_an_op_time_is_given_for_each_convolution_and_counts_nothing_else():
    slept = []

    class Counting(NumpyCpu):
        def wait(self):
            slept.append("wait")

        def convolution(self, y, x, weights):
            assert (y == 0).all()
            slept.append("convolution")
            super().convolution(y, x, weights)

    backend = Counting()
    backend.batch = 2
    small = network.assemble(SMALL, SMALL_MODEL, small_weights())

    found = backend.infer(small, small_images(3))

    assert slept == 4 * ["wait", "convolution", "wait"]
    assert len(found.op_times_s) == 2
    assert all(0 < seconds < 1 for seconds in found.op_times_s)


def test_weights_that_do_not_fit_are_refused_all_at_once():
    weights = small_weights()
    del weights["new1_weight"]
    weights["fullyconnected1_bias"] = np.zeros(9)

    with pytest.raises(ProjectError) as refused:
        network.assemble(SMALL, SMALL_MODEL, weights, path=Path("small.params"))

    assert str(refused.value) == (
        "small.params: weights of small ece408: new1_weight is missing, "
        "not (4, 3, 2, 2); fullyconnected1_bias is (9,), not (10,)"
    )


def test_a_folder_of_models_that_is_not_there_is_not_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("RAI_MODELS_DIR", str(tmp_path / "absent"))

    with pytest.raises(ProjectError, match=r"RAI_MODELS_DIR: .*absent is not a folder"):
        checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("ece408"))


def test_a_model_without_stored_weights_says_how_to_train_them():
    edition = editions.edition("2018fa")

    with pytest.raises(ProjectError, match=r"train\.py --edition 2018fa --model ece4"):
        checkpoints.load(edition, edition.model("ece408"))


def test_both_models_of_the_default_edition_have_weights():
    for name, kind in (("baseline", "convolution"), ("ece408", "new")):
        loaded = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model(name))

        assert loaded.weights[f"{kind}0_weight"].shape == (12, 1, 5, 5)
        assert loaded.weights[f"{kind}1_weight"].shape == (24, 12, 5, 5)


@pytest.mark.data
def test_the_courses_own_weights_reach_the_published_figures_exactly(monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", outside.fashion_mnist())
    monkeypatch.setenv("RAI_MODELS_DIR", str(COURSE_MODEL.parent))
    edition = editions.edition("2019sp")
    model = edition.model("ece408")
    course = checkpoints.load(edition, model)
    images, labels = dataset.load(dataset.TEST)

    found = NumpyCpu().infer(course, resize(images, edition.size)).labels

    assert course.path == COURSE_MODEL

    for count, accuracy in model.published.items():
        assert round(float((found == labels)[:count].mean()), 4) == accuracy


@pytest.mark.data
def test_our_weights_are_right_on_the_share_of_images_that_is_promised(monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", outside.fashion_mnist())
    ours = checkpoints.load(editions.DEFAULT, editions.DEFAULT.model("ece408"))
    images, labels = (part[:2000] for part in dataset.load(dataset.TEST))
    pixels = resize(images, editions.DEFAULT.size)

    found = NumpyCpu().infer(ours, pixels).labels

    assert (found == labels).mean() >= 0.85


def test_the_latest_epoch_of_the_given_weights_is_read(tmp_path, monkeypatch):
    edition = editions.DEFAULT
    model = edition.model("ece408")
    for epoch in (2, 10, 9):
        arrays = {
            name: np.full(shape, epoch, np.float32)
            for name, shape in network.shapes(edition, model).items()
        }
        params.write(tmp_path / f"2019fa-ece408-{epoch:04}.params", arrays)
    (tmp_path / "2019fa-ece408-0011.params.part").touch()
    monkeypatch.setenv("RAI_MODELS_DIR", str(tmp_path))

    read = checkpoints.load(edition, model)

    assert read.path.name == "2019fa-ece408-0010.params"
    assert checkpoints.is_given(read)
    assert (read.weights["new1_weight"] == 10).all()
    assert not checkpoints.is_given(
        checkpoints.load(
            editions.edition("2017fa"), editions.edition("2017fa").models[0]
        )
    )


@pytest.mark.parametrize("folder", ["..", ".", "/"])
def test_the_advice_for_missing_weights_names_a_script_that_is_there(
    folder, monkeypatch
):
    monkeypatch.chdir(checkpoints.MODELS.parent)
    monkeypatch.chdir(folder)
    unknown = replace(editions.DEFAULT, name="2026fa")

    with pytest.raises(ProjectError, match="no stored weights") as refused:
        checkpoints.load(unknown, unknown.model("ece408"))

    _, command, _ = str(refused.value).split("`")
    program, script, *options = command.split()
    assert program == "python"
    assert Path(script).samefile(checkpoints.MODELS.parent / "train.py")
    assert options == ["--edition", "2026fa", "--model", "ece408"]


def test_a_symbol_file_that_is_no_text_is_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "2019fa-odd-symbol.json"
    path.write_bytes(b"\xff\xfe{")
    monkeypatch.setenv("RAI_MODELS_DIR", str(tmp_path))

    with pytest.raises(ProjectError, match=f"{path}: not a symbol file .*Unicode"):
        checkpoints.find(editions.DEFAULT, "odd")


def test_weights_that_are_no_numbers_are_refused():
    weights = small_weights()
    weights["new1_weight"][0] = np.nan

    with pytest.raises(
        ProjectError, match="new1_weight contain infinities or NaN; train"
    ):
        network.assemble(SMALL, SMALL_MODEL, weights)
