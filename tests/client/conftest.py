from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.client import api
from runner.client.api import Patience, ServerClient
from runner.client.profile import ProfileEntry
from tests.kit import played


@pytest.fixture(autouse=True)
def without_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(api, "LONGEST_PAUSE_S", 0.01)


@pytest.fixture
def noticed_pauses(without_long_pauses: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses last until a command has seen why there is one."""
    monkeypatch.setattr(api, "FIRST_PAUSE_S", 0.2)
    monkeypatch.setattr(api, "LONGEST_PAUSE_S", 0.2)


@pytest.fixture
def played_at() -> Iterator[tuple[played.PlayedServer, str]]:
    """Provide a server at a port of this machine, and its address."""
    with played.serving() as found:
        yield found


@pytest.fixture
def server(played_at: tuple[played.PlayedServer, str]) -> played.PlayedServer:
    return played_at[0]


@pytest.fixture
def url(played_at: tuple[played.PlayedServer, str]) -> str:
    return played_at[1]


@pytest.fixture
def client(url: str) -> Iterator[ServerClient]:
    """Provide a client that is logged in, and asks again for a while."""
    with ServerClient(ProfileEntry(url, played.TOKEN), Patience(20.0)) as made:
        yield made
