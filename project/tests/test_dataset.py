"""Reading Fashion-MNIST, and refusing what is not it."""

import gzip
import struct

import numpy as np
import pytest
from course import dataset
from course.errors import ProjectError

from project.tests.pictures import idx
from tests.kit import outside

IMAGES = "t10k-images-idx3-ubyte"
LABELS = "t10k-labels-idx1-ubyte"


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


@pytest.mark.smoke
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


def test_what_a_file_is_shows_in_its_content_whatever_its_name_says(folder, five):
    plain, labels = (folder / IMAGES).read_bytes(), (folder / LABELS).read_bytes()
    (folder / IMAGES).write_bytes(gzip.compress(plain))
    (folder / LABELS).unlink()
    (folder / f"{LABELS}.gz").write_bytes(labels)

    images, read = dataset.load(dataset.TEST)

    assert (images == five).all()
    assert len(read) == 5


def test_a_file_that_cannot_be_opened_is_told_in_a_sentence(folder):
    with pytest.raises(OSError, match=r"Is a directory: .*fashion-mnist"):
        dataset.read_idx(folder, 3)


def test_nothing_is_available_where_the_folder_does_not_exist(monkeypatch, tmp_path):
    monkeypatch.setenv("RAI_DATA_DIR", str(tmp_path / "nowhere"))

    assert not dataset.available("no-such-part")
    with pytest.raises(ProjectError, match="set RAI_DATA_DIR to the folder"):
        dataset.load("no-such-part")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the header is truncated"),
        (idx(np.zeros((5, 28, 28)))[:-1], "truncated for its shape"),
        (idx(np.zeros((5, 28, 28))) + b"x", "too long for its shape"),
        (
            idx(np.zeros((5, 28))),
            r"not a big-endian IDX file of bytes in 3 dimensions \(magic 0x802\)",
        ),
        (
            struct.pack("<4I", 0, 5, 28, 28) + bytes(5 * 28 * 28),
            r"not a big-endian IDX file .* \(magic 0x0\)",
        ),
        (
            struct.pack("<4I", 0x803, 5, 28, 28),
            r"not a big-endian .* \(magic 0x3080000\)",
        ),
        (
            struct.pack(">4I", 0xD03, 5, 28, 28),
            r"not a big-endian IDX file of bytes .* \(magic 0xd03\)",
        ),
        (struct.pack(">4I", 0x803, *[2**32 - 1] * 3), "damaged: shape"),
        (struct.pack(">4I", 0x803, 0, *[2**32 - 1] * 2), "damaged: shape"),
        (
            idx(np.zeros((0, 28, 28))),
            "0 images of 28 x 28 pixels; expected at least one",
        ),
        (idx(np.zeros((5, 28, 27))), "5 images of 28 x 27 pixels; .* square images"),
        (idx(np.zeros((5, 0, 0))), "5 images of 0 x 0 pixels"),
        (idx(np.zeros((4, 28, 28))), "4 images, but 5 labels"),
    ],
)
def test_damaged_images_are_refused_in_a_sentence_that_names_the_file(
    folder, five, content, problem
):
    (folder / IMAGES).write_bytes(content)

    with pytest.raises(ProjectError, match=f"{IMAGES}.*{problem}"):
        dataset.load(dataset.TEST)


def test_an_archive_whose_content_was_changed_is_refused(folder, five):
    packed = bytearray(gzip.compress((folder / IMAGES).read_bytes()))
    packed[-6] ^= 0xFF
    (folder / IMAGES).unlink()
    (folder / f"{IMAGES}.gz").write_bytes(packed)

    with pytest.raises(ProjectError, match="damaged: CRC check failed"):
        dataset.load(dataset.TEST)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(idx(np.zeros((5, 28, 28)))) + b"x", "damaged: Not a gzipped"),
        (
            gzip.compress(gzip.compress(idx(np.zeros((5, 28, 28))))),
            "not a big-endian IDX file of bytes",
        ),
    ],
    ids=["more behind", "packed twice"],
)
def test_an_archive_of_anything_else_is_refused(folder, five, content, problem):
    (folder / f"{IMAGES}.gz").write_bytes(content)
    (folder / IMAGES).unlink()

    with pytest.raises(ProjectError, match=f"{IMAGES}.gz: .*{problem}"):
        dataset.load(dataset.TEST)


@pytest.mark.parametrize("packed", [False, True])
def test_any_beginning_of_a_file_is_refused(folder, packed):
    content = idx(np.arange(5 * 6 * 6).reshape(5, 6, 6))
    content = gzip.compress(content) if packed else content
    path = folder / IMAGES

    for end in range(len(content)):
        path.write_bytes(content[:end])
        with pytest.raises(ProjectError, match=f"{IMAGES}: .*download it again"):
            dataset.read_idx(path, 3)


def test_labels_beyond_the_classes_are_refused(folder, five):
    (folder / LABELS).write_bytes(idx(np.array([0, 1, 2, 3, 10])))

    with pytest.raises(ProjectError, match="label 10 is greater than 9"):
        dataset.load(dataset.TEST)


@pytest.mark.data
def test_the_published_test_images_are_ten_thousand_in_ten_even_classes(monkeypatch):
    monkeypatch.setenv("RAI_DATA_DIR", outside.fashion_mnist())

    images, labels = dataset.load(dataset.TEST)

    assert images.shape == (10_000, 28, 28)
    assert np.bincount(labels).tolist() == [1000] * 10
