"""Pull, build or reuse, and why; decided without an engine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import (
    BuildImage,
    BuildSpec,
    ImageAction,
    ImageFacts,
    ImageUsed,
    Place,
    Push,
    Reason,
)
from runner.core.errors import ImageError, SpecError
from runner.spec import dockerfile, image_names, images

PLACE = Place("rai_build.yml", 9, 3)
TEXT = "ARG BASE=debian:bookworm-slim\nFROM ${BASE} AS cpu\nRUN x\nFROM cpu AS gpu\n"


def named(name="gcc"):
    return BuildSpec("rai_build.yml", image=name)


def built(**changes):
    build = BuildImage(place=PLACE, **changes)
    return BuildSpec("rai_build.yml", image="gcc", build_image=build)


def facts(*tags, dockerfile=TEXT, **changes):
    present = {tag: f"sha256:{tag}" for tag in tags}
    return ImageFacts(present, "linux/amd64", dockerfile, "c0ffee", **changes)


@pytest.mark.parametrize(
    ("name", "tags", "action"),
    [
        ("gcc", ["gcc:latest"], ImageAction.REUSE),
        ("docker.io/library/gcc", ["gcc:latest"], ImageAction.REUSE),
        ("docker.io/a/b:1", ["a/b:1"], ImageAction.REUSE),
        ("gcc", ["gcc:12"], ImageAction.PULL),
        ("gcc:12", ["gcc:latest"], ImageAction.PULL),
    ],
)
def test_a_named_image_is_pulled_only_where_the_engine_lacks_it(name, tags, action):
    plan = images.plan(named(name), facts(*tags))

    assert action is plan.action
    assert plan.reference == image_names.normalise(name)
    assert plan.build is None


@pytest.mark.parametrize(
    ("tag", "full"),
    [
        ("gcc", "gcc:latest"),
        ("gcc:12", "gcc:12"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("x@sha256:ab", "x@sha256:ab"),
        ("docker.io/library/gcc:12", "gcc:12"),
        ("ghcr.io/a/b", "ghcr.io/a/b:latest"),
    ],
)
def test_a_name_is_written_as_engines_list_it(tag, full):
    assert full == image_names.normalise(tag)


def test_an_image_is_built_once_and_reused_while_nothing_changes():
    spec = built()
    first = images.plan(spec, facts())
    again = images.plan(spec, facts(first.reference))

    assert ImageAction.BUILD is first.action
    assert first.reference == f"rai-build:{first.key[:20]}"
    assert (ImageAction.REUSE, first.reference) == (again.action, again.reference)
    assert again.why == "nothing that goes into it has changed"


def test_a_base_that_an_argument_chooses_counts_and_another_image_does_not():
    spec = built(args=(("BASE", "mine"),))

    keys = {images.plan(spec, facts(*tags)).key for tags in ((), ("mine:latest",))}
    other = images.plan(spec, facts("debian:bookworm-slim")).key

    assert len(keys) == 2
    assert other in keys


def test_no_cache_builds_although_nothing_changed():
    first = images.plan(built(no_cache=True), facts())
    again = images.plan(built(no_cache=True), facts(first.reference))

    assert ImageAction.BUILD is again.action
    assert again.why == "no_cache asks for a build"


def test_its_name_is_one_more_tag_and_the_run_starts_from_the_key():
    plan = images.plan(built(image_name="someone/project"), facts())

    assert plan.tags == ("someone/project:latest",)
    assert plan.reference.startswith("rai-build:")


def test_without_a_name_the_projects_dockerfile_is_built():
    plan = images.plan(BuildSpec("rai_build.yml"), facts())

    assert ImageAction.BUILD is plan.action
    assert plan.build == BuildImage()


def test_without_a_name_and_a_dockerfile_there_is_no_image():
    with pytest.raises(ImageError) as caught:
        images.plan(BuildSpec("rai_build.yml"), facts(dockerfile=None))

    assert caught.value.reason is Reason.IMAGE_NOT_FOUND
    assert "names no image" in str(caught.value)
    assert "add a Dockerfile" in str(caught.value)


def test_a_dockerfile_that_is_not_there_is_an_error_at_build_image():
    with pytest.raises(ImageError) as caught:
        images.plan(built(dockerfile="docker/x"), facts(dockerfile=None))

    assert caught.value.reason is Reason.BUILD_FAILED
    assert str(caught.value).startswith(f"{PLACE}: the Dockerfile `docker/x` does not")


@pytest.mark.parametrize("target", ["cpu", "GPU", "0", None])
def test_a_stage_is_found_by_name_or_number(target):
    assert ImageAction.BUILD is images.plan(built(target=target), facts()).action


def test_an_unknown_stage_is_an_error_that_lists_the_stages():
    with pytest.raises(ImageError) as caught:
        images.plan(built(target="full"), facts())

    assert "has no stage `full`; its stages are: `cpu`, `gpu`" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["rai-build", "rai-build:x", "rai-builder/x", "rai/x", "docker.io/rai/x:1"]
)
def test_names_that_rai_keeps_for_itself_are_refused(name):
    with pytest.raises(SpecError) as caught:
        images.plan(built(image_name=name), None)

    assert "is reserved for rai" in str(caught.value)


@pytest.mark.parametrize("name", ["Upper/case", "a b", "-x", "a:", "x/", "ümlaut"])
def test_names_that_docker_would_refuse_are_refused_before_the_build(name):
    assert images.name_problems(built(image_name=name))
    assert images.name_problems(built(push=Push(name)))


@pytest.mark.parametrize(
    "name",
    [
        "rainbow/x",
        "raiproject/x",
        "sample/cuda_ppc64le:runtime-9.2",
        "a.b:5000/c__d/e-f",
    ],
)
def test_ordinary_names_are_accepted(name):
    assert images.name_problems(built(image_name=name, push=Push(name))) == []


@pytest.mark.parametrize(
    ("spec", "action", "said"),
    [
        (named(), ImageAction.PULL, "unless the engine has it"),
        (built(), ImageAction.BUILD, "from Dockerfile, unless nothing"),
        (BuildSpec("f"), ImageAction.BUILD, "no image is named: from the project's"),
    ],
)
def test_without_an_engine_the_plan_says_what_would_happen(spec, action, said):
    plan = images.plan(spec, None)

    assert action is plan.action
    assert said in plan.why
    assert plan.reference


DOCKERFILES = [
    ("FROM debian", [("debian", "")], ["debian"]),
    ("from a as B\nFROM b", [("a", "b"), ("b", "")], ["a"]),
    ("FROM scratch\nCOPY x y", [("scratch", "")], []),
    ("ARG A=x\nFROM $A\n", [("x", "")], ["x"]),
    ("ARG A=x\nARG B=${A}:1\nFROM ${B}", [("x:1", "")], ["x:1"]),
    ("ARG A\nFROM ${A:-d}", [("d", "")], ["d"]),
    ("ARG A=x\nFROM y${A:+-slim}", [("y-slim", "")], ["y-slim"]),
    ("ARG A=\"x\" B='y'\nFROM $B", [("y", "")], ["y"]),
    ("ARG G=x\nFROM $G", [("given", "")], ["given"]),
    ("FROM --platform=$BUILDPLATFORM a AS b", [("a", "b")], ["a"]),
    ("FROM a-${TARGETARCH}", [("a-amd64", "")], ["a-amd64"]),
    ("ARG TARGETARCH\nFROM a-$TARGETARCH", [("a-amd64", "")], ["a-amd64"]),
    ("# FROM x\n\nFROM \\\n # why\n  a \\\n AS b\n", [("a", "b")], ["a"]),
    ("# escape=`\nFROM `\n a", [("a", "")], ["a"]),
    (
        "FROM a\nRUN <<EOF\nfrom x import y\nFROM z\nEOF\nFROM b",
        [("a", ""), ("b", "")],
        ["a", "b"],
    ),
    ("FROM a\nRUN echo \\\n  FROM b", [("a", "")], ["a"]),
    ("FROM a\nARG A=x\nFROM $A", [("a", ""), ("", "")], ["a"]),
    ("\ufeffFROM\ta\r\nFROM a\r\n", [("a", ""), ("a", "")], ["a"]),
    ("", [], []),
    ("FROM\nARG 'x", [], []),
]


@pytest.mark.parametrize(("text", "stages", "bases"), DOCKERFILES)
def test_a_dockerfile_says_what_it_builds_on(text, stages, bases):
    found = dockerfile.stages(text, {"G": "given"}, "linux/amd64")

    assert stages == [(stage.image, stage.name) for stage in found]
    assert tuple(bases) == dockerfile.bases(found)


USED = ImageUsed("gcc:12", "sha256:old", ImageAction.REUSE, "the engine has it")


@pytest.mark.parametrize(
    ("present", "reference"),
    [
        ({"gcc:12": "sha256:old"}, "gcc:12"),
        ({"gcc:12": "sha256:id", "gcc@sha256:old": "sha256:id"}, "gcc:12"),
        ({"gcc:12": "sha256:new", "sha256:old": "sha256:old"}, "sha256:old"),
        (
            {
                "gcc:12": "sha256:new",
                "gcc@sha256:old": "sha256:id",
                "sha256:id": "sha256:id",
            },
            "gcc@sha256:old",
        ),
    ],
)
def test_a_replay_reuses_the_very_image_by_its_name_if_that_is_still_its_own(
    present, reference
):
    plan = images.same(named("gcc:12"), ImageFacts(present, "linux/amd64"), USED)

    assert (plan.action, plan.reference) == (ImageAction.REUSE, reference)


@pytest.mark.parametrize(
    ("used", "pulled"),
    [
        ("gcc:12", "gcc@sha256:old"),
        ("gcc@sha256:old", "gcc@sha256:old"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b@sha256:old"),
        ("localhost:5000/a/b@sha256:old", "localhost:5000/a/b@sha256:old"),
    ],
)
def test_a_replay_pulls_a_named_image_that_is_gone_by_its_digest(used, pulled):
    plan = images.same(named(), facts("gcc:12"), replace(USED, reference=used))

    assert (plan.action, plan.reference) == (ImageAction.PULL, pulled)


def test_a_replay_of_a_run_whose_engine_knew_no_digest_pulls_the_name():
    used = replace(USED, reference="gcc:12", digest="")
    plan = images.same(named(), facts(), used)

    assert (plan.action, plan.reference) == (ImageAction.PULL, "gcc:12")
    assert used.shown == "gcc:12"
    assert USED.shown.endswith("(sha256:old)")


def test_a_replay_builds_an_image_again_that_is_gone_and_pushes_nothing():
    spec = built(push=Push("someone/project:1"))
    first = images.plan(spec, facts())
    used = replace(USED, reference=first.reference)

    plan = images.same(spec, facts(), used)

    assert (plan.action, plan.key) == (ImageAction.BUILD, first.key)
    assert plan.build.push is None
