"""A site's list of images: which names it allows, and whether one may be built."""

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
    Substitute,
)
from runner.core.errors import ImageError, NotAllowedError
from runner.core.policy import NO_POLICY, AllowList, Policy
from runner.spec import images
from runner.spec.image_names import fits

HERE = Place("/etc/rai/policy.yml", 5, 9)
LISTED = AllowList(("debian:*", "registry.example.org/course/*"), HERE)
ONLY = Policy(images=(LISTED,))
ALSO = AllowList(("gcc", "build"), HERE)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("debian:*", "debian", True),
        ("debian:*", "docker.io/library/debian:12", True),
        ("debian:*", "debian@sha256:" + 64 * "0", True),
        ("debian:*", "debian:5000/anything", False),
        ("debian:*", "debian:5000/anything:12", False),
        ("debian:*", "evil/debian:12", False),
        ("debian:*", "library/debian:12", False),
        ("debian:12", "debian:12@sha256:" + 64 * "0", False),
        ("debian:1[23]", "debian:12", True),
        ("debian", "debian:12", True),
        ("debian:latest", "debian", True),
        ("debian:12", "debian", False),
        ("docker.io/course/*", "course/a:1", True),
        ("registry.example.org/course/*", "registry.example.org/course/a/b:1", True),
        ("registry.example.org/course/*", "registry.example.org.evil/course/a", False),
        ("localhost:5000/x", "localhost:5000/x:1", True),
    ],
)
def test_a_pattern_fits_repository_and_tag_each_by_itself(pattern, name, expected):
    assert fits(pattern, name) is expected


def refused(spec: BuildSpec, *words: str) -> list[str]:
    listed = AllowList((*LISTED.patterns, *words), HERE)
    return [str(one) for one in images.not_allowed(spec, Policy(images=(listed,)))]


def test_the_message_names_what_was_asked_the_list_and_its_line():
    hint = "allowed are debian:*, registry.example.org/course/*"
    assert refused(BuildSpec("f.yml", image="gcc")) == [
        f"rai.image is gcc, which is not allowed by {HERE}; {hint}"
    ]
    by = Substitute("debian", "gcc", "--image")
    assert refused(BuildSpec("f.yml", image="gcc", substitute=by)) == [
        f"--image names gcc, which is not allowed by {HERE}; {hint}"
    ]
    assert refused(BuildSpec("f.yml")) == [
        f"building an image is not allowed by {HERE}; name an image in `rai.image`:"
        f" {hint}"
    ]


def test_an_image_is_built_only_where_each_list_has_the_word():
    one, other = Policy(images=(ALSO,)), Policy(images=(ALSO, LISTED))
    assert images.not_allowed(BuildSpec("f.yml"), one) == []
    assert len(images.not_allowed(BuildSpec("f.yml"), other)) == 1
    assert images.not_allowed(BuildSpec("f.yml"), other, builds=False) == []
    named = BuildSpec("f.yml", image="build")
    assert "; allowed are gcc" in str(images.not_allowed(named, one)[0])


def test_no_build_takes_the_name_of_a_listed_image():
    taken = BuildImage("debian:12", push=Push("registry.example.org/course/a"))
    assert len(refused(BuildSpec("f.yml", build_image=taken), "build")) == 2
    mine = BuildSpec("f.yml", build_image=BuildImage("me/x"))
    assert refused(mine, "build") == []


def test_without_a_list_every_image_is_allowed():
    assert images.not_allowed(BuildSpec("f.yml", image="gcc"), NO_POLICY) == []


FACTS = ImageFacts({"rai-build:1": "sha256:old"}, "linux/amd64", "FROM gcc")


def test_the_plan_of_a_run_is_refused_too():
    with pytest.raises(NotAllowedError, match="building an image"):
        images.plan(BuildSpec("f.yml"), FACTS, ONLY)
    with pytest.raises(ImageError, match="has no Dockerfile"):
        images.plan(BuildSpec("f.yml"), replace(FACTS, dockerfile=None), ONLY)


def test_a_replay_is_held_to_the_policy_of_now():
    used = ImageUsed("gcc:12", "sha256:new", ImageAction.REUSE, "")
    with pytest.raises(NotAllowedError, match="gcc@sha256:new"):
        images.same(BuildSpec("f.yml", image="debian"), FACTS, used, ONLY)
    built = ImageUsed("rai-build:1", "sha256:old", ImageAction.BUILD, "")
    with pytest.raises(NotAllowedError, match="building an image"):
        images.same(BuildSpec("f.yml"), FACTS, built, ONLY)
    named = ImageUsed("debian:12", "sha256:old", ImageAction.REUSE, "")
    with pytest.raises(NotAllowedError, match="rai-build:1"):
        images.same(BuildSpec("f.yml", image="debian"), FACTS, named, ONLY)
