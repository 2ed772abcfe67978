"""A site's list of images: every way by which a build gets one is found."""

from __future__ import annotations

import pytest

from runner import images
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
from runner.core.errors import NotAllowedError
from runner.core.policy import NO_POLICY, AllowList, Policy
from runner.images import allowed
from runner.images.names import fits
from runner.images.pulls import pulls

HERE = Place("/etc/rai/policy.yml", 5, 9)
LISTED = AllowList(("debian:*", "registry.example.org/course/*"), HERE)
ONLY = Policy(images=(LISTED,))


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
        ("registry.example.org/course/*", "registry.example.org/course/a/b:1", True),
        ("registry.example.org/course/*", "registry.example.org.evil/course/a", False),
        ("localhost:5000/x", "localhost:5000/x:1", True),
    ],
)
def test_a_pattern_fits_repository_and_tag_each_by_itself(pattern, name, expected):
    assert fits(pattern, name) is expected


def unlisted(text: str, **args: str) -> list[str]:
    """Return what of a Dockerfile is refused; `!` marks what cannot be told."""
    return [
        f"{one.line} {'' if one.clear else '!'}{one.image or one.text}"
        for one in pulls(text, args, "linux/amd64")
        if not one.clear or not allowed.admits(LISTED, one.image)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "FROM debian:12\nRUN apt-get update\n",
        "FROM scratch\nCOPY a b\n",
        "ARG V=12\nFROM debian:${V}\nARG V\nARG V=3\n",
        "FROM debian AS b\nFROM b\nCOPY --from=b /a /b\nCOPY --from=0 a b\n",
        "FROM debian AS base-amd64\nFROM base-$TARGETARCH\n",
        "FROM --platform=$BUILDPLATFORM debian:12 AS Build\nFROM BUILD\n",
        "FROM debian\nRUN python - <<EOF\nfrom os import path\nEOF\nRUN cat <<<hi\n",
        "FROM debian AS a\nRUN <<-'EOF'\n\techo\n\tEOF\nFROM a\n",
        "FROM debian AS a\nRUN --mount=type=cache,target=/x \\\n"
        "  --mount=type=bind,from=a,target=/y \\\n  make\n",
        "# escape=`\nFROM debian AS a\nRUN x `\n  y\nFROM a\n",
        "\ufeffFROM debian AS a\r\nRUN x \\\r\n  y\r\nFROM a\r\n",
        "FROM debian AS a\nRUN echo '# FROM evil' \\\n # FROM evil\n && true\nFROM a\n",
    ],
)
def test_ordinary_files_of_listed_images_are_allowed(text):
    assert unlisted(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FROM evil", ["1 evil"]),
        ("FROM debian\nFROM evil AS unused\n", ["2 evil"]),
        ("FROM debian\nCOPY --from=evil/x /a /b\n", ["2 evil/x"]),
        ("FROM debian\nCOPY --chown=1 --from=evil /a /b\n", ["2 evil"]),
        ("FROM debian\nCOPY \\\n --from=evil \\\n /a /b\n", ["2 evil"]),
        # A word may go on in the next line, and the last line may be continued.
        ("FRO\\\nM evil\n", ["1 evil"]),
        ("FROM debian\nCO\\\nPY --fr\\\n\n#\nom=evil a b\n", ["2 evil"]),
        ("FRO\\\nM ev\\\nil\\\n", ["1 evil"]),
        ("FROM debian\nRUN --mount=type=bind,from=evil,target=/x x\n", ["2 evil"]),
        ("FROM debian\nRUN --mount=target=/x,FROM=evil x\n", ["2 evil"]),
        ("FROM debian\nRUN --mount=from=0,target=/x x\n", ["2 0"]),
        ("FROM debian\nONBUILD COPY --from=evil a b\n", ["2 evil"]),
        ("FROM debian\nONBUILD ONBUILD RUN --mount=from=evil x\n", ["2 evil"]),
        ("# syntax=evil/front:1\nFROM debian\n", ["1 evil/front:1"]),
        ("#!/bin/x\n# Syntax = evil\nFROM debian\n", ["2 evil"]),
        ("// syntax=evil\nFROM debian\n", ["1 evil"]),
        ('{"syntax": "evil"}\n', ['1 !{"syntax": "evil"}']),
        ("ARG A=evil\nFROM $A\n", ["2 evil"]),
        ("ARG G=debian\nFROM $G\n", ["2 evil"]),
        ("FROM $TARGETARCH\n", ["1 evil"]),
        # A stage counts from its line on.
        ("FROM debian\nCOPY --from=evil a b\nFROM debian AS evil\n", ["2 evil"]),
        # What nobody can tell.
        ("FROM debian$X\n", ["1 !FROM debian$X"]),
        ("FROM ${TARGETSTAGE:+evil}\n", ["1 !FROM ${TARGETSTAGE:+evil}", "1 !FROM "]),
        ("ARG X\nFROM debian${X}\n", ["2 !FROM debian${X}"]),
        ("ARG X=debian\nARG X=gcc\nFROM $X\n", ["2 !ARG X=gcc", "3 gcc"]),
        ('FROM debian\nCOPY --from="evil" a b\n', ['2 !COPY --from="evil"']),
        ("FROM debian\nCOPY --fr\\om=evil a b\n", ["2 !COPY --fr\\om=evil"]),
        ("FROM debian\nCOPY --from=$A a b\n", ["2 !$A"]),
        # Lines that are a here-document for one builder only.
        ("FROM debian\nRUN x <<EOF\nFROM evil\n", ["3 evil"]),
        (
            "FROM debian\nRUN echo '<<EOF'\nFROM evil\n",
            ["2 !RUN echo '<<EOF'", "3 evil"],
        ),
        (
            "FROM debian\nRUN x <<'A\\'\nFROM debian AS ubuntu\nA\\\nFROM ubuntu\n",
            ["2 !RUN x <<'A\\'"],
        ),
        (
            "FROM debian\nRUN x <<EOF\nFROM debian AS ubuntu\nEOF\nFROM ubuntu\n",
            ["5 ubuntu"],
        ),
        (
            "FROM debian\nRUN x <<EOF\n\tEOF\nFROM debian AS u\nEOF\nFROM u\n",
            ["6 u"],
        ),
        (
            "FROM debian\nONBUILD RUN x <<EOF\nFROM debian AS gcc\nEOF\n",
            ["2 !ONBUILD RUN x <<EOF"],
        ),
        ("FROM debian\nRUN x ${X:-<<EOF}\nEOF\n", ["2 !RUN x ${X:-<<EOF}"]),
        # Lines that only some join.
        ("FROM debian\nRUN echo \\\\\nFROM evil\n", ["2 !RUN echo \\\\", "3 evil"]),
        ("#x=\n# escape=`\nFROM debian\nRUN a \\\nFROM debian AS u\nFROM u\n", ["6 u"]),
        ("FROM debian\n# x\u2028FROM debian AS evil\nFROM evil\n", ["3 evil"]),
        ("FROM debian\n# x\rFROM debian AS evil\nFROM evil\n", ["3 evil"]),
        ("FROM debian\n# x\x0bFROM debian AS evil\nFROM evil\n", ["3 evil"]),
    ],
)
def test_every_image_that_a_build_may_pull_is_found(text, found):
    assert unlisted(text, TARGETARCH="evil", G="evil") == found


def test_a_frontend_that_a_build_argument_names_is_found():
    assert unlisted("FROM debian", BUILDKIT_SYNTAX="evil") == ["0 evil"]


def refused(spec: BuildSpec, text: str | None = None) -> list[str]:
    return [str(problem) for problem in allowed.problems(spec, ONLY, text)]


def test_the_message_names_what_was_asked_the_list_and_its_line():
    hint = "allowed are debian:*, registry.example.org/course/*"
    assert refused(BuildSpec("f.yml", image="gcc")) == [
        f"rai.image is gcc, which is not allowed by {HERE}; {hint}"
    ]
    by = Substitute("debian", "gcc", "--image")
    assert refused(BuildSpec("f.yml", image="gcc", substitute=by)) == [
        f"--image names gcc, which is not allowed by {HERE}; {hint}"
    ]
    assert refused(BuildSpec("f.yml"), "FROM debian\nFROM gcc:12\n") == [
        f"Dockerfile:2:1: `FROM gcc:12` is not allowed by {HERE}; {hint}"
    ]


def test_no_build_takes_the_name_of_a_listed_image():
    taken = BuildImage("debian:12", push=Push("registry.example.org/course/a"))
    assert len(refused(BuildSpec("f.yml", build_image=taken))) == 2
    assert refused(BuildSpec("f.yml", build_image=BuildImage("me/x"))) == []


def test_without_a_list_every_image_is_allowed():
    assert allowed.problems(BuildSpec("f.yml", image="gcc"), NO_POLICY) == []


FACTS = ImageFacts({"rai-build:1": "sha256:old"}, "linux/amd64", "FROM gcc")


def test_the_plan_of_a_run_is_refused_too_with_what_the_engine_was_given():
    with pytest.raises(NotAllowedError, match="FROM gcc"):
        images.plan(BuildSpec("f.yml"), FACTS, ONLY)


def test_a_replay_is_held_to_the_policy_of_now():
    used = ImageUsed("gcc:12", "sha256:new", ImageAction.REUSE, "")
    with pytest.raises(NotAllowedError, match="gcc@sha256:new"):
        images.same(BuildSpec("f.yml", image="debian"), FACTS, used, ONLY)
    built = ImageUsed("rai-build:1", "sha256:old", ImageAction.BUILD, "")
    with pytest.raises(NotAllowedError, match="FROM gcc"):
        images.same(BuildSpec("f.yml"), FACTS, built, ONLY)
    named = ImageUsed("debian:12", "sha256:old", ImageAction.REUSE, "")
    with pytest.raises(NotAllowedError, match="rai-build:1"):
        images.same(BuildSpec("f.yml", image="debian"), FACTS, named, ONLY)
