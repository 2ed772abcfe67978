"""What .dockerignore leaves, compared with the SDK's own reading, and its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.utils.build import exclude_paths

from runner.core.errors import ImageError
from runner.engines.docker.context import MOST_PATTERNS, DockerIgnore

NAMES = (
    "Dockerfile",
    ".dockerignore",
    "a.c",
    "A.o",
    "sub",
    "sub/a.c",
    "sub/b.o",
    "sub/deep",
    "sub/deep/b.o",
    "sub/deep/x y",
    "other",
    "other/keep",
    "other/drop",
    "b[1]",
)
FOLDERS = ("sub", "sub/deep", "other")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / name
        path.mkdir() if name in FOLDERS else path.touch()
    return tmp_path


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("*",),
        ("*", "!sub"),
        ("*", "!other/keep"),
        ("**/*.o",),
        ("**/deep",),
        ("sub/*", "!sub/a.c"),
        ("sub/", "/other"),
        ("./sub/../other/./drop",),
        ("*.O",),
        ("?.c",),
        ("[ab].c",),
        ("b?1?", "Dockerfile", ".dockerignore"),
        ("**", "!**/a.c"),
        ("!sub", "sub"),
        ("***/b.o",),
        ("../..", "."),
    ],
)
def test_the_same_is_left_as_by_the_sdk(folder, lines):
    expected = exclude_paths(str(folder), list(lines), "Dockerfile")
    assert DockerIgnore("\n".join(lines), "Dockerfile").left(NAMES) == expected


def test_stars_take_no_more_time_than_letters():
    ignore = DockerIgnore("*a" * 400 + "b\n" + "**/" * 200 + "x\n", "Dockerfile")
    assert ignore.left(["a" * 250, "a/" * 100 + "a"])


def test_too_many_or_too_complex_patterns_are_refused():
    with pytest.raises(ImageError, match="over 1,000 patterns"):
        DockerIgnore("a\n" * (MOST_PATTERNS + 1), "Dockerfile")
    with pytest.raises(ImageError, match="too complex"):
        DockerIgnore("a" * 2000, "Dockerfile")


def test_a_name_that_is_not_utf_8_is_left(folder):
    assert DockerIgnore("*.c", "Dockerfile").left(["\udcff"]) == {"\udcff"}
