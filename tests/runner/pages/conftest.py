"""A browser for the tests of pages, marked `browser`.

One is started in each process of the tests. The pages that it opens have no network,
and end with no error on the console and no request made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.runner.pages import browsing
from tests.runner.pages.browsing import Visit, Visits

Opener = Callable[..., Visit]


@pytest.fixture(scope="session")
def chromium() -> Iterator[browsing.Browser]:
    """Start the browser of this process."""
    with browsing.started() as browser:
        yield browser


@pytest.fixture(scope="session")
def visits(chromium: browsing.Browser) -> Visits:
    """Keep the pages of this process."""
    return Visits(chromium)


@pytest.fixture
def opened(visits: Visits, tmp_path: Path) -> Iterator[Opener]:
    """Open a page: opened(html, width=..., scheme=...) -> Visit."""
    numbers = count()

    def open_page(html: str, **settings: Any) -> Visit:
        file = tmp_path / f"{next(numbers)}.html"
        file.write_text(html, "utf-8")
        return visits.open(file, **settings)

    yield open_page
    left = list(visits.leave())
    assert [visit.said for visit in left if visit.said] == []
    assert [visit.asked_for for visit in left if visit.asked_for] == []
