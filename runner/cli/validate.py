"""`rai validate [-p DIR]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from runner.cli import common
from runner.core import (
    BuildSpec,
    ImagePlan,
    Problem,
    Step,
)

if TYPE_CHECKING:
    from runner.report import Table


def validate(
    path: Annotated[
        Path, typer.Option("--path", "-p", help="The project's folder, or its file.")
    ] = Path(),
    as_json: common.JsonFlag = False,
) -> None:
    """Check rai_build.yml and show the plan of its run.

    It needs no Docker.
    """
    from runner import images, job, report
    from runner.cli.project import read_spec
    from runner.core import record
    from runner.core.errors import SpecError
    from runner.terminal.problems import problems as problems_printed
    from runner.terminal.tables import blocks

    try:
        spec, problems, _ = read_spec(path)
    except SpecError as error:
        if as_json:
            common.print_json({"ok": False, "problems": record.plain(error.problems)})
        else:
            problems_printed(error.problems)
        raise typer.Exit(error.reason.exit_code) from None
    problems = [*problems, *_missing_dockerfile(spec)]
    plan = images.plan(spec, None)
    steps = job.steps(spec, gpu=True)
    if as_json:
        common.print_json(
            {
                "ok": True,
                "problems": record.plain(problems),
                "spec": record.plain(spec),
                "image": record.plain(plan),
                "commands": record.plain(steps),
            }
        )
        return
    problems_printed(problems)
    pairs = report.Pairs(tuple(_head(spec, plan, problems)))
    blocks([pairs, _commands(steps)])


def _commands(steps: Sequence[Step]) -> Table:
    """Give a row a command; which of them need a GPU is told where any does."""
    from runner.report import Table

    some = any(step.command.needs_gpu for step in steps)
    rows = tuple(
        (
            str(step.index + 1),
            "shell" if step.invocation.shell else "direct",
            step.invocation.why,
            *(["GPU" if step.command.needs_gpu else ""] if some else []),
            step.command.name or step.command.text,
        )
        for step in steps
    )
    heads = ("#", "run", "why", *(["needs"] if some else []), "command")
    return Table("Commands", heads, rows, frozenset({0}))


def _missing_dockerfile(spec: BuildSpec) -> list[Problem]:
    from runner.core import Place, Severity

    if spec.names_image:
        return []
    name = spec.build_image.dockerfile if spec.build_image else "Dockerfile"
    if (Path(spec.file).parent / name).is_file():
        return []
    place = spec.build_image.place if spec.build_image else Place(spec.file, 1, 1)
    text = f"the docker engine would build the image of {name}, which is not there"
    hint = "add it, or name an image in `rai.image`"
    return [Problem(text, place, hint, Severity.WARNING)]


def _head(
    spec: BuildSpec, plan: ImagePlan | None, problems: list[Problem]
) -> list[tuple[str, str]]:
    from runner import report

    limits = spec.limits
    rows: list[tuple[str, Any]] = [("file", spec.file), ("warnings", len(problems))]
    if plan is not None:
        rows.append(("image", f"{plan.reference}: {plan.action}, {plan.why}"))
    rows.append(("profile", spec.profile))
    for item in spec.data:
        rows.append(("data", f"{item.directory}/{item.file_name} from {item.url}"))
    if spec.gpu:
        optional = ", optional" if spec.gpu.optional else ""
        target = spec.build_image.gpu_target if spec.build_image else None
        built = f"; with it the image's target is {target}" if target else ""
        rows.append(("GPU", f"{spec.gpu.count}{optional}{built}"))
    said = (
        f"{report.seconds(limits.time_s)}, {report.size(limits.memory_bytes)} memory,"
        f" {limits.pids} processes, network {'on' if limits.network else 'off'}"
    )
    rows.append(("limits", said))
    return [(name, str(value)) for name, value in rows]
