"""`rai server ...`: one module for each command."""

from __future__ import annotations

import typer

from runner.cli.server import opening
from runner.cli.server.audit import audit
from runner.cli.server.backup import backup
from runner.cli.server.close import close
from runner.cli.server.decide import decide
from runner.cli.server.doctor import doctor
from runner.cli.server.drain import drain
from runner.cli.server.export import export
from runner.cli.server.extend import extend
from runner.cli.server.gpu import gpu
from runner.cli.server.invite import invite
from runner.cli.server.people import people
from runner.cli.server.rerun import rerun
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
    *(extend, decide, rerun, export, close),
):
    server.command()(opening.with_extra(command))
server.command()(drain)
server.command()(units)
