"""Which part of an image has changed, told without an engine; and its labels."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner import images
from runner.core import (
    BuildImage,
    BuildSpec,
    BuiltImage,
    ImageFacts,
    ImageParts,
    Origin,
    Push,
)
from runner.images import changes, labels, parts

TEXT = "FROM debian:bookworm-slim AS cpu\n"
MINE = Origin("project", "machine", "folder")
FACTS = ImageFacts(
    {"debian:bookworm-slim": "sha256:1"},
    "linux/amd64",
    TEXT,
    "c0ffee",
    (("Dockerfile", "1"), ("tool", "2"), ("old", "3")),
    MINE,
)
BUILD = BuildImage(target="cpu", args=(("CUDA", "13"), ("WHO", "me")))


def made_of(build: BuildImage = BUILD, **facts) -> ImageParts:
    return parts.of(build, replace(FACTS, **facts))


def args(**values: str) -> BuildImage:
    return replace(BUILD, args=tuple(values.items()))


def one(what: ImageParts | None = None, **changed) -> BuiltImage:
    values = {"parts": what or made_of(), "origin": MINE, "created_at": 100.0}
    tags = ("rai-build:1",)
    return BuiltImage(**{"id": "x", "tags": tags, "size_bytes": 1, **values, **changed})


def files(**changed: str | None) -> dict[str, object]:
    now = {**dict(FACTS.files), **changed}
    kept = tuple((name, value) for name, value in now.items() if value)
    return {"context_sha256": "decaf", "files": kept}


EDITED = {"dockerfile": TEXT + "RUN x\n"}
CHANGES = [
    (made_of(), []),
    (made_of(**EDITED, **files(Dockerfile="9")), ["the Dockerfile"]),
    (made_of(**EDITED, context_sha256="decaf", files=()), ["the Dockerfile"]),
    (
        made_of(replace(BUILD, dockerfile="docker/x")),
        ["the Dockerfile (now docker/x, was Dockerfile)"],
    ),
    (made_of(args(CUDA="12", WHO="me")), ["the argument CUDA"]),
    (made_of(args(CUDA="13")), ["the argument WHO"]),
    (
        made_of(args(CUDA="12", WHO="me", NEW="")),
        ["the argument CUDA", "the argument NEW"],
    ),
    (
        made_of(replace(BUILD, target=None)),
        ["the target (now none, was cpu)"],
    ),
    (
        made_of(platform="linux/arm64"),
        ["the platform (now linux/arm64, was linux/amd64)"],
    ),
    (
        made_of(present={"debian:bookworm-slim": "sha256:2"}),
        ["the base debian:bookworm-slim"],
    ),
    (made_of(present={}), ["the base debian:bookworm-slim (gone here)"]),
    (made_of(**files(tool="9")), ["the file tool"]),
    (made_of(**files(old=None)), ["the file old (gone)"]),
    (made_of(**files(new="4")), ["the file new (new)"]),
    (made_of(context_sha256="decaf", files=()), ["a file of the context"]),
    (made_of(context_sha256="decaf"), ["a file of the context"]),
]


@pytest.mark.parametrize(("now", "said"), CHANGES)
def test_each_part_that_changed_is_named(now, said):
    assert changes.changes(made_of(), now) == said


@pytest.mark.parametrize(("now", "said"), CHANGES)
def test_what_changed_is_what_makes_another_key(now, said):
    moved = now.dockerfile != "Dockerfile"  # the same text from elsewhere is the same
    assert (parts.key(now) != parts.key(made_of())) is (bool(said) and not moved)


def test_a_base_that_the_build_fetched_is_told_apart_from_one_that_changed():
    lacking = made_of(present={})

    assert changes.changes(lacking, made_of()) == [
        "the base debian:bookworm-slim (fetched since)"
    ]
    assert parts.with_bases(lacking, FACTS.present) == made_of()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (made_of(**EDITED), "the Dockerfile has changed"),
        (
            made_of(**EDITED, **files(tool="9")),
            "the Dockerfile and the file tool have changed",
        ),
        (
            made_of(**EDITED, **files(a="1", b="2", c="3", d="4")),
            "the Dockerfile, the file a (new), the file b (new) and 2 more "
            "have changed",
        ),
        (made_of(), "its earlier build has lost its name"),
    ],
)
def test_the_reason_of_a_build_is_one_line(now, said):
    assert changes.why(now, MINE, [one()]) == said


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
    said = "no earlier build of this project is known here"

    assert changes.why(made_of(), MINE, built) == said
    assert changes.why(made_of(), None, [one()]) == said


def test_the_last_build_of_the_same_target_is_compared_with():
    gpu = made_of(replace(BUILD, target="gpu"))
    older = one(made_of(args(CUDA="12", WHO="me")), created_at=1.0)
    same = one(made_of(args(CUDA="13", WHO="you")), created_at=2.0)
    newest = one(gpu, created_at=3.0)
    built = [older, newest, same]

    assert changes.why(made_of(), MINE, built) == "the argument WHO has changed"
    assert changes.why(gpu, MINE, [older]) == (
        "the argument CUDA and the target (now gpu, was cpu) have changed"
    )


def test_a_target_that_was_never_built_has_not_changed():
    gpu = made_of(replace(BUILD, target="gpu"))
    last = made_of(replace(BUILD, target=None))

    said = "the target {} has no earlier build here"
    assert changes.why(gpu, MINE, [one()]) == said.format("gpu")
    assert changes.why(last, MINE, [one()]) == said.format("(the last)")


def test_the_plan_of_a_run_says_what_changed():
    spec = BuildSpec("rai_build.yml", build_image=BUILD)
    facts = replace(FACTS, built=(one(),), **EDITED)

    assert images.plan(spec, facts).why == "the Dockerfile has changed"


# Labels


def marked(build: BuildImage, **facts) -> dict[str, str]:
    spec = BuildSpec("rai_build.yml", build_image=build)
    return labels.written(images.plan(spec, replace(FACTS, **facts)))


def read(found: dict[str, str], *tags: str) -> BuiltImage | None:
    return labels.read("sha256:x", tags, found, 5, 1.0)


def test_what_is_written_on_an_image_is_read_back():
    build = replace(BUILD, image_name="me/it:1", push=Push("host:1/me/it"))
    found = {**marked(build), "rai.numpy": "1.23.5", "rai.other": "x"}

    built = read(found, "rai-build:1", "me/it:1")

    assert built is not None
    assert (built.parts, built.origin) == (made_of(build), MINE)
    assert built.names == ("me/it:1", "host:1/me/it:latest")
    assert built.versions == (("numpy", "1.23.5"),)


def test_values_of_arguments_are_not_written():
    assert "s3cret" not in str(marked(args(TOKEN="s3cret")))


def test_the_files_of_a_long_context_are_left_out():
    many = tuple((f"{'deep/' * 20}{number}", "0123456789") for number in range(100))

    text = marked(BUILD, files=many)["rai.parts"]

    assert len(text) < parts.LONGEST_TEXT
    assert read(marked(BUILD, files=many), "rai-build:1").parts == replace(
        made_of(), files=()
    )


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"text": 1}', "{", '"x"'])
def test_parts_that_rai_did_not_write_are_unknown(text):
    assert parts.read(text) is None


@pytest.mark.parametrize(
    ("tags", "recognised"),
    [
        (("rai-build:1",), True),
        (("rai-build:1", "mine:1"), True),
        ((), True),
        (("mine:1",), False),  # built on one of ours, whose labels it has
        (("host/x@sha256:0",), False),  # pulled
    ],
)
def test_an_image_that_only_has_its_labels_from_ours_is_not_ours(tags, recognised):
    assert (read(marked(BUILD), *tags) is not None) is recognised


def test_an_image_without_a_key_is_not_ours():
    assert read({"rai.numpy": "1"}, "rai-build:1") is None
    assert read({}) is None


def test_the_labels_of_a_base_that_rai_built_are_all_replaced():
    bare = labels.written(images.plan(BuildSpec("f", build_image=BuildImage()), None))

    assert bare.keys() == marked(BUILD).keys()
