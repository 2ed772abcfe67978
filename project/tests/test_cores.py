"""Sharing images out over the cores."""

import pytest
from course import cores


@pytest.mark.parametrize("shares", [1, 2, 3, 8])
@pytest.mark.parametrize("images", [0, 1, 2, 7, 64])
def test_every_image_is_worked_on_once(images, shares, monkeypatch):
    monkeypatch.setattr(cores, "SHARES", shares)
    seen = []

    cores.share(lambda part: seen.extend(range(images)[part]), images)

    assert sorted(seen) == list(range(images))


def test_a_mistake_on_another_core_is_not_lost():
    def work(part):
        raise ValueError("on a core")

    with pytest.raises(ValueError, match="on a core"):
        cores.share(work, 4)
