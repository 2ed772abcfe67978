"""`rai validate [-p DIR]`."""

from __future__ import annotations

from typing import Any

import typer

from runner.cli import common
from runner.execution import prepare, validation
from runner.execution.validation import Validation
from runner.report import plans
from runner.terminal.layout import blocks
from runner.terminal.streams import problems


def validate(
    directory: common.Directory = None,
    path: common.ProjectPath = None,
    engine: common.Engine = None,
    image: common.Image = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Check rai_build.yml and show the plan of its run.

    Docker is not needed.
    """
    project = common.project(directory, path)
    found = validation.validate(project, prepare.Options(engine=engine, image=image))
    if as_json:
        common.print_json(_plain(found))
    else:
        problems(found.problems)
        if found.spec:
            warnings, engine = len(found.problems), found.without_image
            blocks(plans.plan(found.spec, found.image, found.steps, warnings, engine))
    if not found.ok:
        raise typer.Exit(found.reason.exit_code)


def _plain(found: Validation) -> dict[str, Any]:
    told = {"ok": found.ok, "problems": found.problems}
    if not found.ok:
        return told
    return {
        **told,
        "spec": found.spec,
        "image": found.image,
        "commands": found.steps,
    }
