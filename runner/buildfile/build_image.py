"""``commands.build_image``: how to build the image from the project."""

from __future__ import annotations

import posixpath

from runner.buildfile import pairs
from runner.core import BuildImage, Push
from runner.core.quantities import Kind
from runner.yamlfile import Fields

_IF_EMPTY = "no image is built; indent its keys below it, or write `build_image: {}`"


def read(commands: Fields, has_gpu: bool) -> BuildImage | None:
    """Parse how to build the image; None if none is built."""
    fields = commands.child("build_image", "`dockerfile: Dockerfile`", _IF_EMPTY)
    if fields is None:
        return None
    if fields.has("gpu_target") and not has_gpu:
        fields.problems.warn(
            f"{fields.name('gpu_target')}: resources.gpu does not ask for a GPU",
            fields.place("gpu_target"),
            "it is not built; add `gpu: {count: 1}`, or run with `--gpus 1`",
        )
    inside = Kind("a path inside the project", _inside_the_project)
    image_name = fields.text("image_name", None, "someone/project:1")
    return BuildImage(
        image_name=image_name,
        dockerfile=fields.read(
            "dockerfile", BuildImage().dockerfile, inside, "docker/Dockerfile"
        ),
        target=fields.text("target", None, "cpu"),
        gpu_target=fields.text("gpu_target", None, "gpu"),
        args=_arguments(fields),
        no_cache=fields.boolean("no_cache", False),
        push=_push(fields, image_name),
        place=(commands.node.key("build_image") or fields.node).place,
    )


def _inside_the_project(text: str) -> str | None:
    if text.startswith("/") or ".." in text.split("/") or not text.isprintable():
        return None
    return posixpath.normpath(text)


def _arguments(fields: Fields) -> tuple[tuple[str, str], ...]:
    found = pairs.read(fields, "args", "a build argument")
    return tuple((pair.name, pair.value or "") for pair in found)


def _push(fields: Fields, image_name: str | None) -> Push | None:
    push = fields.child("push", "`push: true`")
    if push is None:
        return None
    if push.has("credentials"):
        push.problems.warn(
            f"{push.name('credentials')} is ignored, to keep secrets out of records",
            push.place("credentials"),
            "remove it; `docker login` keeps credentials",
        )
    if push.has("registry"):
        push.problems.warn(
            f"{push.name('registry')} has no effect",
            push.place("registry"),
            "write the registry in image_name, e.g. `ghcr.io/someone/project:1`",
        )
    name = push.text("image_name", image_name, "someone/project:1")
    if not push.boolean("push", False):
        return None
    if name is None:
        push.problems.error(
            f"{push.path} has no image_name",
            push.place(),
            "add it, e.g. `image_name: someone/project:1`",
        )
        return None
    return Push(name)
