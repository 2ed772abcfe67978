"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.web import RUN, WebServer, serving


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """A server without GPUs, with the roles that a server has by default."""
    with serving(tmp_path) as found:
        yield found


@pytest.fixture
def token(web: WebServer) -> str:
    """The token of somebody whose run RUN waits."""
    found = web.token("blue")
    assert web.put(found, RUN).status == 201
    return found
