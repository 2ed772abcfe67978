"""The disk limit of the Docker engine, where the image has no honest `du`."""

from __future__ import annotations

import io
from collections.abc import Iterator

import docker
import pytest

from runner.core import Profile, Reason, Workspace
from runner.core.cancel import Cancel
from runner.core.events import CommandFinished, Warned
from runner.engines.docker import DockerEngine
from runner.engines.docker.attach import ask
from runner.engines.docker.client import UnusableError
from tests.runner.engines.running import LIMITS, RUN_ID, Subject, direct, run, shell

pytestmark = pytest.mark.docker

IMAGE = "debian:bookworm-slim"


@pytest.fixture(scope="module")
def client() -> Iterator[docker.APIClient]:
    client = docker.APIClient()
    yield client
    client.close()


@pytest.fixture(scope="module")
def container(client: docker.APIClient) -> Iterator[str]:
    made = client.create_container(IMAGE, entrypoint=["sleep", "600"])["Id"]
    client.start(made)
    yield made
    client.remove_container(made, force=True)


def test_what_a_command_answers_is_its_stdout(client, container):
    command = ["sh", "-c", "echo one; echo two >&2"]
    assert ask(client, container, command, 30) == "one\n"


def test_a_command_that_answers_without_end_is_given_up(client, container):
    with pytest.raises(UnusableError, match="`yes` prints without end"):
        ask(client, container, ["yes"], 30)


def test_a_command_that_does_not_answer_is_given_up(client, container):
    with pytest.raises(UnusableError, match="`sleep` takes over"):
        ask(client, container, ["sleep", "60"], 0.5)


@pytest.mark.parametrize(
    ("du", "why"),
    [
        ("rm /usr/bin/du", "no `du` that prints sizes"),
        ("printf '#!/bin/sh\necho\n' > /usr/bin/du", "no `du` that prints sizes"),
        ("printf '#!/bin/sh\nexec yes\n' > /usr/bin/du", "`du` prints without end"),
    ],
)
def test_a_disk_limit_that_the_images_du_does_not_serve_is_said_to_be_unenforced(
    du: str, why: str
):
    """The root can be written in this profile, so the run itself spoils its image."""
    cancel = Cancel()
    work = Workspace(
        RUN_ID,
        (shell(f"{du}; sleep 60"),),
        lambda: io.BytesIO(bytes(1024)),
        IMAGE,
        limits=LIMITS,
        profile=Profile.COMPATIBLE,
    )
    warned = []
    for event in DockerEngine().run(work, cancel):
        if isinstance(event, Warned):
            warned.append(event.text)
            cancel.request()
        if isinstance(event, CommandFinished):
            assert event.reason is Reason.CANCELLED
    (text,) = warned
    assert text.startswith("the disk limit is not enforced: ")
    assert why in text


def test_nothing_is_said_of_the_disk_limit_where_it_is_enforced():
    result = run(Subject(DockerEngine(), IMAGE), [direct("sleep", "3")])
    assert not [e for e in result.events if isinstance(e, Warned)]
