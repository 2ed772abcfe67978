"""`rai server ...`: a module for each of its subjects."""

from __future__ import annotations

import typer

from runner.cli.server import access, course, opening, start, state

server = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Serve a machine's GPUs to several people.",
)
for command in (
    *(start.serve, access.invite, access.people, access.revoke),
    *(state.gpu, state.audit, state.backup, state.doctor),
    *(course.extend, course.decide, course.rerun, course.export, course.close),
):
    server.command()(opening.with_extra(command))
server.command()(state.drain)
server.command()(start.units)
