"""The disk limit of the Docker engine, which asks nothing of the image."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator

import docker
import pytest

from runner.core import Profile, Reason
from runner.core.errors import NotAllowedError
from runner.core.events import Event, Warned
from runner.engines.docker import DockerEngine, usage
from runner.engines.docker.attach import ask
from runner.engines.docker.client import UnusableError
from tests.kit.running import IMAGE, Subject, direct, run

pytestmark = pytest.mark.docker

MB = 1_000_000

BIG = "head -c 30000000 /dev/zero >"
HOLD = "exec 3>kept; rm kept; head -c {} /dev/zero >&3"
SHUT = "mkdir shut; head -c {} /dev/zero > shut/big; chmod 0 shut"
BOTH = f"{HOLD}; {SHUT}; sleep 60".format(12 * MB, 12 * MB)
FAKE = "printf '#!/bin/sh\\necho 4 /build\\n' > /usr/bin/du"
MANY = "mkdir many; cd many; seq 6000 | xargs touch; sleep 60"
FREEZE = f"{BIG} big; while :; do pkill -STOP du; kill -STOP -1; done 2>/dev/null"


@pytest.fixture(scope="module")
def container(client: docker.APIClient) -> Iterator[str]:
    made = client.create_container(IMAGE, entrypoint=["sleep", "600"])["Id"]
    client.start(made)
    yield made
    client.remove_container(made, force=True)


def test_what_a_command_answers_is_its_stdout(client, container):
    command = ["sh", "-c", "echo one; echo two >&2"]
    assert ask(client, container, command, 30) == "one\n"


@pytest.mark.parametrize(
    ("line", "most_s", "said"),
    [("yes", 30, "`yes` prints without end"), ("sleep 60", 0.5, "`sleep` takes over")],
)
def test_a_command_without_an_end_is_given_up(line, most_s, said, client, container):
    with pytest.raises(UnusableError, match=said):
        ask(client, container, line.split(), most_s)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure more often than usual."""
    monkeypatch.setattr(usage, "FIRST_LOOK_S", 0.3)
    monkeypatch.setattr(usage, "INTERVAL_S", 0.3)


@pytest.fixture
def by_root() -> None:
    if not usage.measured_by_root():
        pytest.skip("needs root")


def exceeded(script: str, image: str = IMAGE, **options: object) -> list[Event]:
    """Run a script that takes over 20 MB; return what was told of the disk limit."""
    options = {"profile": Profile.COMPATIBLE, "time_s": 40} | options
    result = run(
        Subject(DockerEngine(), image), [script], disk_bytes=20 * MB, **options
    )
    assert [f.reason for f in result.finished] == [Reason.DISK_LIMIT]
    return [e for e in result.events if isinstance(e, Warned)]


@pytest.mark.lengthy
@pytest.mark.usefixtures("by_root")
@pytest.mark.parametrize("script", [BOTH, MANY, FREEZE])
def test_no_command_hides_what_it_writes(script: str):
    exceeded(script, profile=Profile.STRICT, stop_grace_s=0.5)


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("/opt/big", True),
        ("/opt/big", False),
        ("/src/big", True),
    ],
)
def test_all_that_an_image_writes_counts_whatever_its_du_says(
    place: str, root: bool, monkeypatch: pytest.MonkeyPatch
):
    if root and not usage.measured_by_root():
        pytest.skip("needs root")
    monkeypatch.setattr(usage, "measured_by_root", lambda: root)
    assert exceeded(f"{FAKE}; {BIG} {place}; sleep 60") == []


@pytest.mark.usefixtures("by_root")
def test_a_removed_file_of_the_root_counts_while_it_is_open():
    exceeded(f"cd /opt; {HOLD}; sleep 60".format(30 * MB))


@pytest.fixture
def linked(client: docker.APIClient) -> Iterator[str]:
    """An image in which /build is a link to a folder, where the engine mounts it."""
    name = f"rai-test-linked-{secrets.token_hex(4)}"
    lines = f"FROM {IMAGE}\nRUN ln -s /opt /build\n"
    list(client.build(fileobj=io.BytesIO(lines.encode()), tag=name, rm=True))
    yield name
    client.remove_image(name, force=True)


def test_an_image_cannot_lead_the_measure_to_a_folder_of_the_host(linked: str):
    assert exceeded(f"{BIG} /build/big; sleep 60", linked) == []


def test_a_user_is_told_what_the_disk_limit_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
):
    name = "disk of removed and empty files"
    assert (name in DockerEngine().facts().unenforced) is not usage.measured_by_root()
    monkeypatch.setattr("runner.engines.docker.facts.measured_by_root", lambda: False)
    assert name in DockerEngine().facts().unenforced


def test_a_measure_that_fails_is_told_and_ends_a_run_under_strict_limits(
    monkeypatch: pytest.MonkeyPatch,
):
    def gone(_: object) -> int:
        raise OSError("the folder is gone")

    monkeypatch.setattr(usage.ContainerDiskWatch, "_used", gone)
    told = run(Subject(DockerEngine(), IMAGE), [direct("sleep", "1")])
    (warned,) = [e for e in told.events if isinstance(e, Warned)]
    assert warned.text == "the disk limit is not enforced: the folder is gone"
    with pytest.raises(NotAllowedError, match="disk limit is not enforced any more"):
        run(
            Subject(DockerEngine(), IMAGE),
            [direct("sleep", "30")],
            strict_limits="the setting strict_limits",
        )


def test_nothing_is_said_of_the_disk_limit_where_it_is_enforced():
    result = run(Subject(DockerEngine(), IMAGE), [direct("sleep", "1")])
    assert not [e for e in result.events if isinstance(e, Warned)]
