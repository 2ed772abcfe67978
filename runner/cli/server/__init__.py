"""`rai server ...`: one module for each command."""

from __future__ import annotations

import typer

from runner.cli.server import course, opening
from runner.cli.server.audit import audit
from runner.cli.server.backup import backup
from runner.cli.server.doctor import doctor
from runner.cli.server.drain import drain
from runner.cli.server.gpu import gpu
from runner.cli.server.invite import invite
from runner.cli.server.people import people
from runner.cli.server.revoke import revoke
from runner.cli.server.serve import serve
from runner.cli.server.units import units

server = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Serve a machine's GPUs to several people.",
)
for command in (
    *(serve, invite, people, revoke, gpu, audit, backup, doctor),
    *(course.extend, course.decide, course.rerun, course.export, course.close),
):
    server.command()(opening.with_extra(command))
server.command()(drain)
server.command()(units)
