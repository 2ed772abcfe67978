"""Reading Fashion-MNIST, and refusing what is not it."""

import gzip
import struct

import dataset
import numpy as np
import pytest
from errors import ProjectError

from tests import fashion_mnist

IMAGES = "t10k-images-idx3-ubyte"
LABELS = "t10k-labels-idx1-ubyte"


def idx(array):
    header = struct.pack(f">{1 + array.ndim}I", 0x800 | array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", str(tmp_path / "data"))
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def five(folder):
    images = np.arange(5 * 28 * 28).reshape(5, 28, 28) % 251
    (folder / IMAGES).write_bytes(idx(images))
    (folder / LABELS).write_bytes(idx(np.array([0, 9, 3, 3, 1])))
    return images


def test_images_and_labels_are_read_as_they_were_written(five):
    images, labels = dataset.load(dataset.TEST)

    assert (images == five).all()
    assert labels.tolist() == [0, 9, 3, 3, 1]


def test_gzipped_files_are_read_too_and_may_lie_in_the_folder_itself(folder, five):
    for name in (IMAGES, LABELS):
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        (folder.parent / f"{name}.gz").write_bytes(gzip.compress(content))

    images, _ = dataset.load(dataset.TEST)

    assert (images == five).all()


def test_nothing_is_available_where_the_folder_does_not_exist(monkeypatch, tmp_path):
    monkeypatch.setenv("RAI_DATA_DIR", str(tmp_path / "nowhere"))

    assert not dataset.available("no-such-part")
    with pytest.raises(ProjectError, match="set RAI_DATA_DIR to the folder"):
        dataset.load("no-such-part")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "truncated in its header"),
        (idx(np.zeros((5, 28, 28)))[:-1], "truncated for its shape"),
        (idx(np.zeros((5, 28, 28))) + b"x", "too long for its shape"),
        (idx(np.zeros((5, 28))), "not big-endian IDX of 3 dimensions"),
        (struct.pack("<4I", 0, 5, 28, 28) + bytes(5 * 28 * 28), r"magic 0x0"),
        (struct.pack(">4I", 0x803, *[2**32 - 1] * 3), "damaged: a shape of"),
        (idx(np.zeros((4, 28, 28))), "4 images, but 5 labels"),
    ],
)
def test_damaged_images_are_refused_in_a_sentence_that_names_the_file(
    folder, five, content, problem
):
    (folder / IMAGES).write_bytes(content)

    with pytest.raises(ProjectError, match=f"{IMAGES}.*{problem}"):
        dataset.load(dataset.TEST)


@pytest.mark.parametrize("keep", [0, 5, 30, -4])
def test_a_damaged_archive_is_refused_wherever_it_ends(folder, five, keep):
    packed = gzip.compress((folder / IMAGES).read_bytes())
    (folder / IMAGES).unlink()
    (folder / f"{IMAGES}.gz").write_bytes(packed[:keep])

    with pytest.raises(ProjectError, match=f"{IMAGES}.gz.*download it again"):
        dataset.load(dataset.TEST)


def test_an_archive_whose_content_was_changed_is_refused(folder, five):
    packed = bytearray(gzip.compress((folder / IMAGES).read_bytes()))
    packed[-6] ^= 0xFF
    (folder / IMAGES).unlink()
    (folder / f"{IMAGES}.gz").write_bytes(packed)

    with pytest.raises(ProjectError, match="damaged: CRC check failed"):
        dataset.load(dataset.TEST)


def test_labels_beyond_the_classes_are_refused(folder, five):
    (folder / LABELS).write_bytes(idx(np.array([0, 1, 2, 3, 10])))

    with pytest.raises(ProjectError, match="label 10 is over 9"):
        dataset.load(dataset.TEST)


@pytest.mark.data
def test_the_published_test_images_are_ten_thousand_in_ten_even_classes(monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", fashion_mnist.folder())

    images, labels = dataset.load(dataset.TEST)

    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [1000] * 10
