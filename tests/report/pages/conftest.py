"""A browser for the tests of pages, marked `browser`.

One is started in each process of the tests. The pages that it opens have no network,
and end with no error on the console and no request made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import browsing
from tests.kit.browsing import Visit

Opener = Callable[..., Visit]


@pytest.fixture(scope="session")
def chromium() -> Iterator[browsing.Browser]:
    """Start the browser of this process."""
    with browsing.started() as browser:
        yield browser


@pytest.fixture
def opened(chromium: browsing.Browser, tmp_path: Path) -> Iterator[Opener]:
    """Open a page: opened(html, width=..., scheme=...) -> Visit."""
    visits: list[Visit] = []

    def open_page(
        html: str, width: int = 1280, scheme: browsing.Scheme = "light", **settings: Any
    ) -> Visit:
        file = tmp_path / f"{len(visits)}.html"
        file.write_text(html, "utf-8")
        visits.append(Visit(chromium, **settings))
        visits[-1].open(file, width, scheme=scheme)
        return visits[-1]

    yield open_page
    for visit in visits:
        visit.context.close()
    assert [visit.said for visit in visits if visit.said] == []
    assert [visit.asked_for for visit in visits if visit.asked_for] == []
