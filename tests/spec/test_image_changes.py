"""Why an image is built again, told without an engine; and the label that it has."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import (
    BuildImage,
    BuildSpec,
    BuiltImage,
    ImageFacts,
    ImageParts,
    ImagePlan,
    Origin,
    Push,
)
from runner.spec import dockerfile, image_names, images

TEXT = "FROM debian:bookworm-slim AS cpu\nFROM cpu AS gpu\n"
MINE = Origin("project", "machine", "folder")
FACTS = ImageFacts(
    {"debian:bookworm-slim": "sha256:1"}, "linux/amd64", TEXT, "c0ffee", MINE
)
BUILD = BuildImage(target="cpu", args=(("CUDA", "13"), ("WHO", "me")))
GPU = replace(BUILD, target="gpu")


def planned(build: BuildImage = BUILD, **facts) -> ImagePlan:
    spec = BuildSpec("rai_build.yml", build_image=build)
    return images.plan(spec, replace(FACTS, **facts))


def made_of(build: BuildImage = BUILD, **facts) -> ImageParts:
    found = planned(build, **facts).parts
    assert found
    return found


def args(**values: str) -> BuildImage:
    return replace(BUILD, args=tuple(values.items()))


def one(what: ImageParts | None = None, **changed) -> BuiltImage:
    values = {"parts": what or made_of(), "origin": MINE, "created_at": 100.0}
    tags = ("rai-build:1",)
    return BuiltImage(**{"id": "x", "tags": tags, "size_bytes": 1, **values, **changed})


EDITED = {"dockerfile": TEXT + "RUN x\n"}
CHANGES = [
    (made_of(**EDITED), "Dockerfile changed"),
    (made_of(**EDITED, context_sha256="decaf"), "Dockerfile changed"),
    (made_of(args(CUDA="12", WHO="me")), "build arguments changed"),
    (made_of(args(CUDA="13")), "build arguments changed"),
    (made_of(args(CUDA="13", WHO="me", NEW="")), "build arguments changed"),
    (made_of(args(CUDA="12"), context_sha256="decaf"), "build arguments changed"),
    (made_of(platform="linux/arm64"), "build arguments changed"),
    (made_of(context_sha256="decaf"), "files changed"),
    (made_of(present={}, context_sha256="decaf"), "files changed"),
    (made_of(present={"debian:bookworm-slim": "sha256:2"}), "base image changed"),
    (made_of(present={}), "base image changed"),
    (made_of(GPU), "no earlier build"),
]


@pytest.mark.parametrize(("now", "said"), CHANGES)
def test_one_part_that_changed_is_the_reason_and_makes_another_key(now, said):
    assert dockerfile.reason(now, MINE, [one()]) == said
    assert dockerfile.key(now) != dockerfile.key(made_of())


def test_the_order_of_arguments_does_not_count():
    assert made_of(args(WHO="me", CUDA="13")) == made_of()


def test_a_base_that_the_build_pulled_gives_the_key_of_the_next_run():
    lacking = planned(present={})
    assert lacking.parts

    bases = dockerfile.checksum_of_bases(lacking.bases, FACTS.present)

    assert replace(lacking.parts, bases=bases) == made_of()


ELSEWHERE = replace(MINE, machine="another")


@pytest.mark.parametrize(
    "built",
    [
        [],
        [one(origin=None)],
        [one(origin=ELSEWHERE)],
        [replace(one(), parts=None)],
    ],
)
def test_without_an_earlier_build_of_this_very_project_that_is_said(built):
    now = made_of(**EDITED)

    assert dockerfile.reason(now, MINE, built) == "no earlier build"
    assert dockerfile.reason(now, None, [one()]) == "no earlier build"


def test_the_last_build_of_the_same_target_is_compared_with():
    older = one(made_of(args(CUDA="12", WHO="me")), created_at=1.0)
    same = one(made_of(context_sha256="decaf"), created_at=2.0)
    newest = one(made_of(GPU), created_at=3.0)

    assert dockerfile.reason(made_of(), MINE, [older, newest, same]) == "files changed"


def test_the_plan_of_a_run_says_what_changed():
    assert planned(built=(one(),), **EDITED).why == "Dockerfile changed"


# The label


def marked(build: BuildImage, **facts) -> dict[str, str]:
    return image_names.label(planned(build, **facts))


def read(found: dict[str, str], *tags: str) -> BuiltImage | None:
    return image_names.read_label("sha256:x", tags, found, 5, 1.0)


def test_what_is_written_on_an_image_is_read_back():
    build = replace(BUILD, image_name="me/it:1", push=Push("host:1/me/it"))
    found = {**marked(build), "rai.numpy": "1.23.5", "rai.other": "x"}

    built = read(found, "rai-build:1", "me/it:1")

    assert (built.parts, built.origin) == (made_of(build), MINE)
    assert built.names == ("me/it:1", "host:1/me/it:latest")
    assert built.versions == (("numpy", "1.23.5"),)


def test_values_of_arguments_are_not_written():
    assert "s3cret" not in str(marked(args(TOKEN="s3cret")))


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", '{"key": 1}', '{"key": "x", "names": 1}', "{", '"']
)
def test_a_label_that_rai_did_not_write_is_none(text):
    assert read({"rai.build": text}, "rai-build:1") is None
    assert read({"rai.numpy": "1"}, "rai-build:1") is None


@pytest.mark.parametrize(
    ("tags", "recognised"),
    [
        (("rai-build:1",), True),
        (("rai-build:1", "mine:1"), True),
        ((), True),
        (("mine:1",), False),  # built on one of ours, whose label it has
        (("host/x@sha256:0",), False),  # pulled
    ],
)
def test_an_image_that_only_has_its_label_from_ours_is_not_ours(tags, recognised):
    assert (read(marked(BUILD), *tags) is not None) is recognised


def test_the_label_of_a_base_that_rai_built_is_replaced():
    bare = image_names.label(
        images.plan(BuildSpec("f", build_image=BuildImage()), None)
    )

    assert bare.keys() == marked(BUILD).keys()
