"""A browser for the tests of pages, marked `browser`.

One is started in each process of the tests; each page that it opens has a context of
its own, no network, and ends with no error on its console and no request made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runner.pages import browsing
from tests.runner.pages.browsing import Visit

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

    def open_page(html: str, **settings: object) -> Visit:
        file = tmp_path / f"{len(visits)}.html"
        file.write_text(html, "utf-8")
        visits.append(Visit(chromium, file, **settings))
        return visits[-1]

    yield open_page
    for visit in visits:
        visit.context.close()
    for visit in visits:
        assert visit.said == []
        assert visit.asked_for == []
