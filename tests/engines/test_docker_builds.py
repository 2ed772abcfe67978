"""Image builds that try to pass their limits, on a real Docker Engine."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest
from msgspec.structs import replace

from runner.core import MIB, BuildImage, BuildSpec, Reason
from runner.core.errors import Cancel, ImageError
from runner.core.events import BuildOutput, ImageReady
from runner.engines.cgroup import ROOT
from runner.engines.docker import DockerEngine
from runner.engines.docker.classic import BuildParts, engine_time
from runner.pack import FolderProject
from runner.spec import images

pytestmark = pytest.mark.docker

BASE = "debian:bookworm-slim"


class Builds:
    """Builds of Dockerfiles, each with a label of its own."""

    def __init__(self, folder: Path, client: docker.APIClient) -> None:
        self.folder, self.client = folder, client
        self.engine = DockerEngine()
        self.label = f"rai-test-{secrets.token_hex(4)}"
        self.printed = 0

    def build(self, *lines: str, cancel: Cancel | None = None, **limits: float) -> bool:
        """Build; return whether there is an image then.

        ``cancel`` is requested once a step has printed some lines.
        """
        text = "\n".join([f"FROM {BASE}", f"LABEL {self.label}=1", *lines])
        (self.folder / "Dockerfile").write_text(text + "\n")
        wanted = BuildSpec("rai_build.yml", build_image=BuildImage(self.label))
        project = FolderProject(self.folder)
        plan = images.plan(wanted, self.engine.image_facts(project, wanted))
        plan = replace(plan, limits=replace(plan.limits, **limits))
        ready = False
        for event in self.engine.prepare(plan, project, cancel or Cancel()):
            ready = isinstance(event, ImageReady)
            if isinstance(event, BuildOutput):
                self.printed += len(event.text)
                if cancel and self.printed > 1000:
                    cancel.request()
        return ready

    def left(self) -> list[str]:
        """Name the containers, images and control groups that are still there."""
        ours = {"label": self.label}
        containers = self.client.containers(all=True, filters=ours)
        found = self.client.images(filters=ours)
        groups = [*ROOT.glob("*/rai-build-*"), *ROOT.glob("rai-build-*")]
        mine = f".{os.getpid()}."
        return [
            *(c["Id"] for c in containers),
            *(i["Id"] for i in found),
            *(str(group) for group in groups if mine in group.name),
        ]


@pytest.fixture
def builds(tmp_path: Path, client: docker.APIClient) -> Iterator[Builds]:
    made = Builds(tmp_path, client)
    yield made
    for found in client.images(filters={"label": made.label}, all=True):
        for name in (*(found["RepoTags"] or ()), found["Id"]):
            try:
                client.remove_image(name)
            except docker.errors.APIError:
                continue


@pytest.mark.parametrize(
    ("line", "reason", "text"),
    [
        ("RUN tail /dev/zero; true", Reason.MEMORY_LIMIT, "of 64MiB, in Step 3/3"),
        pytest.param(
            "RUN for i in $(seq 300); do sleep 9 & done; wait",
            Reason.PIDS_LIMIT,
            "limit of 100 processes, in Step 3/3: RUN for",
            marks=pytest.mark.root,
        ),
        (
            "RUN setsid sleep 100 & sleep 99",
            Reason.TIME_LIMIT,
            "within 3s, in Step 3/3",
        ),
        ("RUN trap '' TERM; while :; do echo y; done", Reason.TIME_LIMIT, "within 3s"),
        ("RUN head -c 9m /dev/zero", Reason.OUTPUT_LIMIT, "printed more than 4MiB"),
        (
            "RUN head -c 90m /dev/zero >/x; sleep 100",
            Reason.DISK_LIMIT,
            "wrote more than 50MiB, in Step 3/3",
        ),
        ("RUN head -c 90m /dev/zero >/x", Reason.DISK_LIMIT, "wrote more than 50MiB"),
    ],
)
def test_a_build_ends_at_its_limit_and_leaves_nothing(builds, line, reason, text):
    limits = {"memory_bytes": 64 * MIB, "build_pids": 100, "output_bytes": 4 * MIB}
    time_s = 3.0 if reason is Reason.TIME_LIMIT else 60.0
    with pytest.raises(ImageError) as caught:
        builds.build(line, build_time_s=time_s, build_disk_bytes=50 * MIB, **limits)

    assert (caught.value.reason, text in str(caught.value)) == (reason, True), caught
    assert builds.left() == []


def test_a_cancel_ends_a_build_that_prints_and_leaves_nothing(builds):
    cancel = Cancel()
    assert not builds.build("RUN while :; do echo y; done", cancel=cancel)
    assert builds.left() == []


def test_many_processes_within_the_limits_are_no_reason(builds):
    line = "RUN for i in $(seq 60); do sleep 1 & done; wait"
    assert builds.build(line, memory_bytes=64 * MIB, build_pids=100)


def test_a_step_that_fails_by_itself_met_no_limit(builds):
    with pytest.raises(ImageError) as caught:
        builds.build("RUN exit 137")
    assert caught.value.reason is Reason.BUILD_FAILED
    assert "exit code 137" in str(caught.value)


def test_a_line_without_an_end_is_shown_and_not_kept(builds):
    builds.build("RUN head -c 8m /dev/zero | tr '\\0' x", output_bytes=64 * MIB)
    assert builds.printed > 8 * MIB


def test_names_that_a_step_prints_are_not_taken_for_the_builders(builds, client):
    bystander = client.create_container(BASE, ["sleep", "60"])["Id"]
    client.start(bystander)
    time.sleep(1.1)  # the engine tells the second in which it was made
    said = f" ---> Running in {bystander[:12]}"
    try:
        with pytest.raises(ImageError, match="within 3s"):
            builds.build(
                f"RUN echo '{said}'; sleep 100", build_time_s=3.0, memory_bytes=64 * MIB
            )
        assert client.inspect_container(bystander)["State"]["Running"]
    finally:
        client.remove_container(bystander, force=True)


def test_what_the_engine_would_fetch_itself_is_refused(builds):
    with pytest.raises(ImageError, match="Dockerfile:3:1") as caught:
        builds.build("ADD http://127.0.0.1:1/x /x")
    assert caught.value.reason is Reason.NOT_ALLOWED


def test_the_time_of_the_build_counts_what_comes_before_its_steps(builds):
    with pytest.raises(ImageError, match=r"within 0\.001s"):
        builds.build("RUN true", build_time_s=0.001)


def test_a_dockerfile_that_changed_since_it_was_checked_is_not_built(builds):
    wanted = BuildSpec("rai_build.yml", build_image=BuildImage(builds.label))
    file, project = builds.folder / "Dockerfile", FolderProject(builds.folder)
    file.write_text(f"FROM {BASE}\nLABEL {builds.label}=1\n")
    plan = images.plan(wanted, builds.engine.image_facts(project, wanted))
    file.write_text(f"FROM {BASE}\nLABEL {builds.label}=2\n")

    with pytest.raises(ImageError, match="`Dockerfile` was changed while"):
        list(builds.engine.prepare(plan, project, Cancel()))
    assert not builds.left()


class NamingLate(docker.APIClient):
    """An engine that names an image just after the first look for that name."""

    made = reference = ""

    def inspect_image(self, image: str) -> dict[str, object]:
        if image == self.reference and self.made:
            self.tag(self.made, self.reference)
            self.made = ""
            raise docker.errors.ImageNotFound(image)
        return super().inspect_image(image)


def made(client: docker.APIClient, label: str, parts: BuildParts) -> str:
    """Make an image as a step does, and tell it."""
    container = client.create_container(BASE, ["true"])["Id"]
    image: str = client.commit(container, changes=[f"LABEL {label}=1"])["Id"]
    client.remove_container(container)
    parts.heard(f" ---> {image.removeprefix('sha256:')[:12]}\n")
    return image


def test_an_image_that_gets_its_name_while_it_is_removed_is_gone_all_the_same(builds):
    with closing(NamingLate()) as client:
        parts = BuildParts(client, engine_time(client))
        client.made = made(client, builds.label, parts)
        client.reference = builds.label

        parts.remove(builds.label, {builds.label: "1"})

    assert client.made == ""
    assert builds.left() == []


class EndingLate(docker.APIClient):
    """An engine that ends a step on an image just after it has removed that image."""

    late = ""

    def remove_image(self, image: str, **options: bool) -> None:
        super().remove_image(image, **options)
        if self.late:
            labelled = [f"LABEL {self.late}=1"]
            self.import_image_from_data(bytes(10240), changes=labelled)
            self.late = ""


def test_an_image_that_is_made_of_one_just_removed_is_gone_all_the_same(builds):
    with closing(EndingLate()) as client:
        parts = BuildParts(client, engine_time(client))
        made(client, builds.label, parts)
        client.late = builds.label

        parts.remove(builds.label, {builds.label: "1"})

    assert client.late == ""
    assert builds.left() == []
