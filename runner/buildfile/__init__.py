"""Parse rai_build.yml to a BuildSpec, or report every problem at once."""

from __future__ import annotations

from runner.buildfile import resources
from runner.buildfile.commands import (
    ANY,
    WHAT,
    read_build_image,
    read_commands,
    read_env,
)
from runner.buildfile.secrets import filled, masked, redacted
from runner.core import LIMITS, BuildImage, BuildSpec, Command, Place, Problem
from runner.core.errors import SpecError
from runner.images import problems as image_problems
from runner.images.names import valid
from runner.yamlfile import Fields, Grammar, Mapping, Problems, compose
from runner.yamlfile import decode as decode_yaml

__all__ = ["KEYS", "decode", "filled", "masked", "parse", "redacted"]


def decode(raw: bytes, file: str) -> str:
    """Decode the file's bytes; raise SpecError with the place of the first bad byte."""
    problems = Problems()
    text = decode_yaml(raw, file, problems)
    if text is None:
        raise SpecError(problems.found)
    return text


def parse(text: str, file: str) -> tuple[BuildSpec, list[Problem]]:
    """Parse a build file; return it with its warnings, or raise SpecError."""
    problems = Problems()
    root = Fields.of(compose(text, file, problems), KEYS, problems)
    if root is None and problems.fatal:
        raise SpecError(problems.found)
    start = Mapping(Place(file, 1, 1), ())
    spec = _spec(root or Fields(start, KEYS, problems), file)
    problems.found += image_problems(spec)
    if problems.fatal:
        raise SpecError(problems.in_file_order())
    return spec, problems.in_file_order()


def _spec(root: Fields, file: str) -> BuildSpec:
    rai = root.section("rai", "`image: gcc`")
    wants = root.section("resources")
    gpu = resources.gpu(wants)
    architecture, cores = resources.cpu(wants)
    build_image, commands = _commands(root, gpu is not None)
    return BuildSpec(
        file=file,
        version=rai.text("version", "", "0.2"),
        image=_image(rai),
        image_place=rai.place("image") if rai.has("image") else None,
        cpu_architecture=architecture,
        cpu_cores=cores,
        gpu=gpu,
        limits=resources.limits(wants),
        data=resources.data(wants),
        build_image=build_image,
        commands=commands,
        env=read_env(root),
    )


def _commands(
    root: Fields, has_gpu: bool
) -> tuple[BuildImage | None, tuple[Command, ...]]:
    before = root.problems.errors
    fields = root.section("commands", "`build:` and a list")
    image = read_build_image(fields, has_gpu)
    commands = read_commands(fields, has_gpu)
    if image is None and not commands and root.problems.errors == before:
        here = root.place("commands")
        hint = "list them under `commands:` and `build:`, each after a `- `"
        root.problems.error("no commands", here, hint)
    return image, commands


def _image(rai: Fields) -> str | None:
    image = rai.text("image", None, "gcc:12")
    if image is not None and not valid(image):
        rai.problems.warn(
            f'rai.image "{image}" is not a valid image name',
            rai.place("image"),
            "expected e.g. `someone/project:1`, in lower case",
        )
    return image


KEYS: Grammar = {
    "": ("rai", "resources", "env", "commands"),
    "rai": ("version", "image"),
    "resources": (
        "cpu",
        "gpu",
        "gpus",
        "network",
        "cache",
        "limits",
        "dataresources",
    ),
    "resources.cpu": ("architecture", "cores"),
    "resources.gpu": ("count", "optional", "architecture", "memory"),
    "resources.limits": (*(limit.key for limit in LIMITS), "datasize"),
    "resources.dataresources[]": ("mount", "source", "cache"),
    "resources.dataresources[].source": ("url", "md5", "extract"),
    "commands": ("build_image", "build"),
    "commands.build_image": (
        "image_name",
        "dockerfile",
        "target",
        "gpu_target",
        "args",
        "no_cache",
        "push",
    ),
    "commands.build_image.push": ("push", "image_name", "registry", "credentials"),
    "commands.build_image.push.credentials": ("username", "password"),
    "commands.build[]": (
        "run",
        "name",
        "needs",
        "continue_on_error",
        "timeout",
        "env",
        "expect",
    ),
    "commands.build[].expect": (*WHAT, ANY),
}
"""The keys of each mapping, by its dotted path; ``[]`` are the items of a list."""
