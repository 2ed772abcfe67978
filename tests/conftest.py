"""What tests make on a Docker Engine, and how nothing of it stays."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, NotFound

from runner.spec.milestones import OURS

STAYS_S = 60.0
"""How long the engine may use an image of a build that was cancelled."""


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Make a project's folder, of the files that the test's module has in PROJECT."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name, text in getattr(request.module, "PROJECT", {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def few_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let milestone 2 be of 4 images in place of 100."""
    text = (OURS / "m2.yml").read_text()
    (tmp_path / "site").mkdir()
    few = text.replace("images: 100", "images: 4")
    (tmp_path / "site/m2.yml").write_text(few)
    monkeypatch.setenv("RAI_MILESTONES", str(tmp_path / "site"))


@pytest.fixture
def name(client: docker.APIClient) -> Iterator[str]:
    """Name an image; those with the label ``rai-test=NAME`` do not outlive the test."""
    name = f"rai-test-{secrets.token_hex(4)}:1"
    yield name
    for found in client.images(filters={"label": f"rai-test={name}"}):
        remove(client, found["Id"])


def remove(client: docker.APIClient, image: str) -> None:
    """Remove an image, with the containers that ended builds have of it.

    The engine removes these itself, some time after a build was cancelled.
    """
    until = time.monotonic() + STAYS_S
    while time.monotonic() < until:
        for found in client.containers(all=True, filters={"ancestor": image}):
            with suppress(APIError):
                client.remove_container(found["Id"], force=True)
        try:
            return client.remove_image(image, force=True)
        except NotFound:
            return None
        except APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise
        time.sleep(0.1)
    return pytest.fail(f"the image {image} stays in use")
