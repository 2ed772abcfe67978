"""Images on a real Docker Engine: looked up, pulled, built, reused, pushed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import docker
import pytest

from runner.core import (
    BuildImage,
    BuildSpec,
    ImageAction,
    ImagePlan,
    Place,
    Push,
    Reason,
)
from runner.core.errors import Cancel, ImageError
from runner.core.events import (
    BuildOutput,
    BuildStarted,
    Event,
    ImageReady,
    Progress,
    PullStarted,
)
from runner.engines.docker import DockerEngine
from runner.pack import FolderProject
from runner.spec import images
from runner.system import machine
from tests.kit.fake_engine import tar_of
from tests.kit.registry import Registry
from tests.kit.running import Subject, long_sleep, run
from tests.kit.waiting import until

pytestmark = pytest.mark.docker

BASE = "debian:bookworm-slim"
NOWHERE = "127.0.0.1:1/nobody/nothing:1"


@pytest.fixture(scope="module")
def engine() -> DockerEngine:
    return DockerEngine()


def write(project: Path, name: str, *lines: str, base: str = BASE) -> None:
    text = "\n".join([f"FROM {base} AS cpu", f"LABEL rai-test={name}", *lines])
    (project / "Dockerfile").write_text(text + "\n")


def spec(name: str, **named) -> BuildSpec:
    return BuildSpec("rai_build.yml", build_image=BuildImage(name, **named))


def planned(engine: DockerEngine, project: Path, wanted: BuildSpec) -> ImagePlan:
    return images.plan(wanted, engine.image_facts(FolderProject(project), wanted))


def prepare(
    engine: DockerEngine, project: Path, plan: ImagePlan, cancel: Cancel | None = None
) -> list[Event]:
    return list(engine.prepare(plan, FolderProject(project), cancel or Cancel()))


def of_kind(events: list[Event], kind: type) -> list:
    return [e for e in events if isinstance(e, kind)]


def test_an_image_is_built_live_tagged_labelled_and_then_reused(
    engine, client, project, name
):
    write(project, name, "ARG WHO=x", 'RUN echo "hello $WHO" | tee /said')
    wanted = spec(name, target="cpu", args=(("WHO", "world"),))
    plan = planned(engine, project, wanted)
    assert plan.action is ImageAction.BUILD

    events = prepare(engine, project, plan)

    (started,) = of_kind(events, BuildStarted)
    assert started.builder
    said = "".join(e.text for e in of_kind(events, BuildOutput))
    assert "hello world" in said
    assert "rai.build" not in said
    ready = events[-1]
    assert ready.image.digest.startswith("sha256:")
    found = client.inspect_image(name)
    assert plan.reference in found["RepoTags"]
    assert plan.key in found["Config"]["Labels"]["rai.build"]
    assert run(Subject(engine, name), ["cat /said"]).stdout == b"hello world\n"

    again = planned(engine, project, wanted)
    assert (again.action, again.reference) == (ImageAction.REUSE, plan.reference)
    assert len(prepare(engine, project, again)) == 1


def test_a_reused_image_gets_the_name_that_is_asked_for(engine, client, project, name):
    write(project, name)
    prepare(engine, project, planned(engine, project, spec(name)))
    other = name.replace("rai-test", "rai-test-other")
    prepare(engine, project, planned(engine, project, spec(other)))
    assert client.inspect_image(other)["Id"] == client.inspect_image(name)["Id"]


def test_a_failing_build_names_its_step_its_exit_code_and_its_last_lines(
    engine, project, name
):
    write(project, name, "RUN echo something is wrong; exit 7", "RUN true")
    with pytest.raises(ImageError) as caught:
        prepare(engine, project, planned(engine, project, spec(name)))
    assert caught.value.reason is Reason.BUILD_FAILED
    text = str(caught.value)
    assert "RUN echo something is wrong; exit 7: exit code 7" in text
    assert "Step 3/" in text
    assert "something is wrong" in text


def test_a_dockerfile_that_cannot_be_read_is_a_failed_build(engine, project, name):
    write(project, name, "RUNN true")
    with pytest.raises(ImageError, match=r"(?i)unknown instruction") as caught:
        prepare(engine, project, planned(engine, project, spec(name)))
    assert caught.value.reason is Reason.BUILD_FAILED


@pytest.mark.parametrize("lines", [(), ("RUN true && \\", "", "  true")])
def test_a_base_that_cannot_be_had_says_so_and_how_to_make_one(
    engine, project, name, lines
):
    write(project, name, *lines, base=NOWHERE)  # the empty line gives a warning
    with pytest.raises(ImageError) as caught:
        prepare(engine, project, planned(engine, project, spec(name)))
    assert caught.value.reason is Reason.IMAGE_NOT_FOUND
    assert NOWHERE in str(caught.value)
    assert "image/make-base" in str(caught.value)


def test_a_cancelled_build_stops_and_gives_no_image(engine, client, project, name):
    sleep = long_sleep()
    write(project, name, f"RUN {sleep}")
    cancel = Cancel()
    threading.Timer(1.0, cancel.request).start()
    events = prepare(engine, project, planned(engine, project, spec(name)), cancel)
    assert not of_kind(events, ImageReady)
    wait_for_no(client, sleep)


def wait_for_no(client: docker.APIClient, command: str) -> None:
    until(lambda: not any(command in c["Command"] for c in client.containers()))


def test_an_image_that_no_registry_has_is_not_found_and_named(engine, project):
    named = Place("rai_build.yml", 2, 10)
    plan = ImagePlan(ImageAction.PULL, NOWHERE, "a test", place=named)
    with pytest.raises(ImageError) as caught:
        prepare(engine, project, plan)
    assert caught.value.reason is Reason.IMAGE_NOT_FOUND
    assert str(caught.value).startswith(f"{named}: the image {NOWHERE} cannot be")


def foreign(client: docker.APIClient, name: str) -> None:
    """Load an image that says that it is for another architecture."""
    config = {"architecture": "s390x", "os": "linux", "config": {}, "rootfs": {}}
    config["rootfs"] = {"type": "layers", "diff_ids": []}
    config["config"] = {"Labels": {"rai-test": name}}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": []}]
    files = {"config.json": config, "manifest.json": manifest}
    packed = {path: json.dumps(content).encode() for path, content in files.items()}
    list(client.load_image(tar_of(packed)))


@pytest.mark.skipif(machine.emulates("qemu-s390x"), reason="it is emulated here")
def test_an_image_for_another_architecture_is_refused_with_both_names(
    engine, client, project, name
):
    foreign(client, name)
    plan = planned(engine, project, BuildSpec("rai_build.yml", image=name))

    with pytest.raises(ImageError, match="is for s390x, and the engine's mach") as told:
        prepare(engine, project, plan)
    assert told.value.reason is Reason.IMAGE_NOT_FOUND


def test_an_image_is_pushed_where_it_is_asked_and_pulled_from_there(
    engine, client, project, name
):
    registry = Registry()
    pushed = f"{registry.host}/some/image:3"
    try:
        (project / "large").write_bytes(os.urandom(3_000_000))
        write(project, name, "COPY large /large")
        wanted = spec(name, push=Push(pushed))
        prepare(engine, project, planned(engine, project, wanted))
        client.remove_image(pushed, force=True)
        for tag in client.inspect_image(name)["RepoTags"]:
            client.remove_image(tag, force=True)

        named = BuildSpec("rai_build.yml", image=pushed)
        plan = planned(engine, project, named)
        events = prepare(engine, project, plan)

        assert plan.action is ImageAction.PULL
        assert of_kind(events, PullStarted) == [PullStarted(pushed)]
        assert all(p.task == "pull" for p in of_kind(events, Progress))
        assert events[-1].image.digest.startswith("sha256:")
        assert planned(engine, project, named).action is ImageAction.REUSE
    finally:
        registry.close()


def test_a_push_that_fails_is_told(engine, project, name):
    write(project, name)
    plan = planned(engine, project, spec(name, push=Push("127.0.0.1:1/no/where:1")))
    with pytest.raises(ImageError, match="cannot be pushed"):
        prepare(engine, project, plan)


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "sub/Dockerfile"])
def test_a_dockerfile_outside_of_the_project_is_not_read(
    engine, project, name, dockerfile, tmp_path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "Dockerfile").write_text("FROM secret\n")
    (project / "sub").symlink_to(outside)
    (project / "Dockerfile").unlink(missing_ok=True)
    (project / "Dockerfile").symlink_to(outside / "Dockerfile")

    with pytest.raises(ImageError, match="leads out of the folder") as caught:
        planned(engine, project, spec(name, dockerfile=dockerfile))
    assert "secret" not in str(caught.value)


# The command line's builder, where there is one: here a pretended one.

BUILDX = """#!/bin/sh
[ "$1 $2" = "buildx version" ] && echo "github.com/docker/buildx v0.99.0 abc" && exit
shift 2
echo "#1 [internal] load build definition from Dockerfile" >&2
echo "#1 DONE 0.0s" >&2
echo "#5 [cpu 2/2] RUN something" >&2
echo "#5 0.1 $DOCKER_HOST $*" >&2
echo "#5 0.2 git: $BUILDX_GIT_INFO, $BUILDX_GIT_LABELS" >&2
echo "#5 0.3 files:" $(tar -t) >&2
"""


@pytest.fixture
def buildx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "docker"
    program.write_text(BUILDX)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return program


def test_buildx_builds_where_it_is_present_on_the_same_engine(
    engine, client, project, name, buildx
):
    write(project, name)
    (project / ".env").touch()
    (project / "a.c").touch()
    client.tag(BASE, *name.split(":"))  # what the pretended builder would have made
    plan = ImagePlan(
        ImageAction.BUILD, name, "a test", BuildImage(name, target="cpu"), "key"
    )
    events = prepare(engine, project, plan)
    client.remove_image(name)
    (started,) = of_kind(events, BuildStarted)
    assert started.builder == "buildx v0.99.0"
    said = "".join(e.text for e in of_kind(events, BuildOutput))
    assert "unix:///var/run/docker.sock --load" in said
    assert f"--tag={name}" in said
    assert "--target=cpu" in said
    assert "files: Dockerfile a.c\n" in said
    assert "git: false, false" in said, "git would do what the project's .git says"


def test_a_build_that_fails_in_buildx_names_its_step(engine, project, name, buildx):
    error = 'process "/bin/sh -c x" did not complete successfully: exit code: 9'
    buildx.write_text(BUILDX + f"echo '#5 ERROR: {error}' >&2; exit 1\n")
    plan = ImagePlan(ImageAction.BUILD, name, "a test", BuildImage(name), "key")
    with pytest.raises(ImageError) as caught:
        prepare(engine, project, plan)
    assert caught.value.reason is Reason.BUILD_FAILED
    assert "Step 2/2: RUN something: exit code 9" in str(caught.value)


def test_an_edit_while_the_image_is_built_is_not_taken_for_what_was_built(
    engine, project, name
):
    write(project, name, "RUN true")
    for event in engine.prepare(
        planned(engine, project, spec(name)), FolderProject(project), Cancel()
    ):
        if isinstance(event, BuildOutput):
            write(project, name, "RUN false")

    again = planned(engine, project, spec(name))

    assert again.action is ImageAction.BUILD
    assert again.why == "Dockerfile changed"


def test_an_image_that_came_into_use_meanwhile_is_kept_by_the_engine(
    engine, client, project, name
):
    write(project, name)
    plan = planned(engine, project, spec(name))
    prepare(engine, project, plan)
    (one,) = (i for i in engine.built_images() if plan.reference in i.tags)
    container = client.create_container(plan.reference, ["sleep", "60"])
    client.start(container)
    try:
        done = engine.remove_images([one])
    finally:
        client.remove_container(container, force=True)

    (kept,) = done.kept
    assert kept.image == one
    assert "container" in kept.why
    assert engine.remove_images([one]).kept == ()
    assert one.id not in [image.id for image in engine.built_images()]
