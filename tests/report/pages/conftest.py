"""A browser for the tests of pages, marked `browser`.

The pages that it opens have no network, and end with no error on the console and no
request made. They are opened one after another in one tab, unless one has settings of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.kit import browsing
from tests.kit.browsing import Visit

Opener = Callable[..., Visit]


@pytest.fixture(scope="session")
def tab(chromium: browsing.Browser) -> Visit:
    """Open the tab of all pages without settings of their own."""
    return Visit(chromium)


@pytest.fixture
def opened(chromium: browsing.Browser, tab: Visit, tmp_path: Path) -> Iterator[Opener]:
    """Open a page: opened(html, width=..., scheme=...) -> Visit."""
    visits: list[Visit] = []

    def open_page(
        html: str, width: int = 1280, scheme: browsing.Scheme = "light", **settings: Any
    ) -> Visit:
        file = tmp_path / f"{next(numbers)}.html"
        file.write_text(html, "utf-8")
        visit = Visit(chromium, **settings) if settings else tab
        visits.append(visit)
        visit.open(file, width, scheme=scheme)
        return visit

    numbers, tab.said, tab.asked_for = count(), [], []
    yield open_page
    for visit in visits:
        if visit is not tab:
            visit.context.close()
    assert [visit.said for visit in visits if visit.said] == []
    assert [visit.asked_for for visit in visits if visit.asked_for] == []
