"""Which images on an engine are outdated and can be removed, decided without it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import (
    BuildImage,
    BuildSpec,
    BuiltImage,
    ImageFacts,
    ImageParts,
    Origin,
)
from runner.spec import image_names, images

MINE = Origin("project", "machine", "folder")
OTHER = Origin("project", "machine", "another folder")
STAGES = "FROM debian AS cpu\nFROM debian AS gpu\n"
SPEC = BuildSpec("rai_build.yml", build_image=BuildImage(target="cpu"))


def plans(*current: str, targets=("cpu",)):
    """Plan a run of each target; those that are current have their image."""
    specs = [replace(SPEC, build_image=BuildImage(target=target)) for target in targets]
    bare = ImageFacts({}, "linux/amd64", STAGES, "c0ffee")
    wanted = {spec.build_image.target: images.plan(spec, bare) for spec in specs}
    present = {wanted[target].reference: "sha256:x" for target in current}
    facts = replace(bare, present=present)
    return [images.plan(spec, facts) for spec in specs]


CPU, GPU = (plan.reference for plan in plans(targets=("cpu", "gpu")))


def built(name: str, at: float, target: str = "cpu", **changed) -> BuiltImage:
    """An image of this project; a name with a colon is its tag, another its id."""
    parts = ImageParts(target, "", "", "", "")
    tags = (name,) if ":" in name else ()
    made = BuiltImage(name, tags, 100, at, MINE, parts)
    return replace(made, **changed)


OLD, OLDER = built("rai-build:old", 2), built("rai-build:older", 1)
OLD_GPU = built("rai-build:old-gpu", 0, "gpu")


@pytest.mark.parametrize(
    ("images", "planned", "gone"),
    [
        ([], plans(), []),
        ([OLD, OLDER], plans(), [OLDER]),
        ([built(CPU, 3), OLD, OLDER], plans("cpu"), [OLD, OLDER]),
        ([built(CPU, 0), OLD, OLDER], plans("cpu"), [OLD, OLDER]),
        ([built("x", 3), built(CPU, 4)], plans("cpu"), [built("x", 3)]),
        ([OLD, replace(OLDER, origin=OTHER)], plans(), []),
        ([OLD, replace(OLDER, origin=None)], plans(), []),
        ([OLD, OLD_GPU], plans(targets=("cpu", "gpu")), []),
        ([OLD, OLD_GPU], [], []),
        ([OLD, OLD_GPU], plans(), [OLD_GPU]),
        ([OLD_GPU], plans(), []),
        ([OLD, replace(OLDER, parts=None)], plans(), [OLDER]),
    ],
)
def test_what_a_later_build_of_the_project_replaced_is_outdated(images, planned, gone):
    found = image_names.outdated(images, MINE, planned)

    assert [one.id for one in found] == [one.id for one in gone]


def test_an_image_is_current_by_its_name_whoever_built_it():
    theirs = built(CPU, 1, origin=OTHER)

    assert image_names.current(theirs, plans("cpu"))
    assert not image_names.current(built(GPU, 1), plans("cpu"))
    assert not image_names.current(theirs, plans())


NAMED = built("rai-build:1", 1, tags=("rai-build:1", "me/it:1"), names=("me/it:1",))
FOREIGN = built("rai-build:1", 1, tags=("rai-build:1", "mine:1"))


@pytest.mark.parametrize(
    ("one", "everything", "names", "why"),
    [
        (OLD, False, ("rai-build:old",), None),
        (built("x", 1), False, (), None),
        (NAMED, False, None, "it is named me/it:1"),
        (NAMED, True, ("rai-build:1", "me/it:1"), None),
        (FOREIGN, True, None, "it is named mine:1"),
        (built("x", 1, containers=1), True, None, "a container uses it"),
        (built("x", 1, containers=2), True, None, "containers use it"),
    ],
)
def test_what_is_used_or_has_a_name_of_its_own_stays(one, everything, names, why):
    found = image_names.prune([one], everything=everything)

    assert [r.tags for r in found.removals] == ([] if names is None else [names])
    assert [kept.why for kept in found.kept] == ([] if why is None else [why])


def test_what_comes_free_at_least_is_what_each_shares_with_none():
    images = [built("a", 1, shared_bytes=60), built("b", 1, shared_bytes=None)]

    found = image_names.prune(images, everything=False)

    assert image_names.least_freed_bytes(found.removals) == 140


@pytest.mark.parametrize(
    ("origins", "before", "gone"),
    [
        ([MINE], 3, [OLDER]),
        ([MINE, OTHER], 3, [OLDER]),
        ([MINE], 1, []),
        ([OTHER], 3, []),
    ],
)
def test_only_old_builds_of_these_projects_that_later_ones_replaced_are_found(
    origins, before, gone
):
    found = [built("rai-build:new", 4), OLDER, replace(OLD, origin=OTHER)]
    assert image_names.replaced(found, origins, before) == gone
