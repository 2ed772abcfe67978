"""The plan of a build file, as blocks."""

from __future__ import annotations

from collections.abc import Sequence

from runner.core import LIMITS, BuildSpec, ImagePlan, Step
from runner.figures.table import one_line
from runner.report.blocks import Block, Pairs, Table, filled
from runner.report.phrases import named_by, titled


def plan(
    spec: BuildSpec,
    image: ImagePlan | None,
    steps: Sequence[Step],
    warnings: int,
    engine: str = "",
) -> list[Block]:
    """Return a spec's settings, and its commands with how each is started.

    Without an image, ``engine`` runs the commands with this machine's programs.
    """
    return [Pairs(tuple(_head(spec, image, engine, warnings))), _commands(steps)]


def _commands(steps: Sequence[Step]) -> Table:
    """Return a row for each command.

    Columns show which need a GPU, and what they must print, if any does.
    """
    rows = [
        (
            str(step.index + 1),
            "shell" if step.invocation.shell else "direct",
            step.invocation.why,
            "GPU" if step.command.needs_gpu else "",
            "; ".join(one.words for one in step.command.expect),
            titled(step.command.name, step.command.text),
        )
        for step in steps
    ]
    heads = ("#", "run", "why", "needs", "expects", "command")
    kept = ("#", "run", "why", "command")
    return filled("Commands", heads, rows, ("#",), keep=kept)


def _head(
    spec: BuildSpec, image: ImagePlan | None, engine: str, warnings: int
) -> list[tuple[str, str]]:
    rows = [("file", spec.file), ("warnings", str(warnings))]
    if image is None:
        text = f"none: the {engine} engine uses this machine's programs"
        rows.append(("image", text))
    else:
        rows.append(("image", f"{image.reference}: {image.action}, {image.why}"))
        rows += [("", named_by(image))] if image.named_by else []
    rows.append(("profile", str(spec.profile)))
    if spec.env:
        pairs = (f"{name}={one_line(value)}" for name, value in spec.env)
        rows.append(("env", ", ".join(pairs)))
    for item in spec.data:
        rows.append(("data", f"{item.directory}/{item.file_name} from {item.url}"))
    if spec.gpu:
        optional = ", optional" if spec.gpu.optional else ""
        target = spec.build_image.gpu_target if spec.build_image else None
        built = f"; the image's target is then {target}" if target else ""
        rows.append(("GPU", f"{spec.gpu.count}{optional}{built}"))
    builds = image is not None and image.build is not None
    limits = (
        f"{limit.key} {limit.written(spec.limits)}"
        for limit in LIMITS
        if builds or not limit.of_build
    )
    return [*rows, ("limits", ", ".join(limits))]
