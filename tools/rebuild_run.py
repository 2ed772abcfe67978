"""Make a run's folder of a record and of what `rai run` showed, as docs/h200/ has them.

    python tools/rebuild_run.py docs/h200/docker.json docs/h200/docker.txt

It prints the run's id; RAI_HOME says where runs are kept. The folder has the record,
with figures that are read anew, and what each command printed, both streams as one.
Files of the build folder were not kept.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from msgspec.structs import replace

from runner import findings
from runner.core import CommandRecord, Findings, RunRecord, Stream, events, record
from runner.store import notes, settings
from runner.store.paths import Home, RunPaths

NOTE = "made again of its record and its log; its build folder was not kept"

_OWN = re.compile("^✱ ", re.M)


def rebuild(shown: RunRecord, log: str, home: Home) -> RunPaths:
    """Write the folder of a run; ``log`` is what `rai run` showed of it."""
    paths = home.run(shown.id)
    paths.root.mkdir(parents=True, mode=0o700)
    printed = outputs(log)
    if len(printed) != len(shown.commands):
        raise ValueError(f"{len(printed)} outputs of {len(shown.commands)} commands")
    again = [
        replace(command, findings=read(command, text))
        for command, text in zip(shown.commands, printed, strict=True)
    ]
    shown = replace(shown, commands=tuple(again))
    offset = 0
    with (
        paths.stdout.open("wb") as stdout,
        paths.events.open("wb") as lines,
    ):
        for command, text in zip(shown.commands, printed, strict=True):
            data = text.encode()
            stdout.write(data)
            event = events.Output(command.index, Stream.STDOUT, b"", offset, len(data))
            lines.write(events.to_line(event, shown.created_at))
            offset += len(data)
    paths.stderr.touch()
    notes.write(paths, NOTE)
    paths.record.write_bytes(record.to_json(shown))
    return paths


def read(command: CommandRecord, printed: str) -> Findings:
    """Return the figures of an output, as today's rai reads them."""
    found = findings.find(printed.encode())
    name = command.name or command.text
    return findings.attributed(found, command.number, name, command.text)


def outputs(log: str) -> list[str]:
    """Return what each command printed: what follows rai's line that names it."""
    parts = [part for part in _OWN.split(log) if part.startswith("Running ")]
    return [part.partition("\n")[2] for part in parts]


def main(arguments: list[str]) -> None:
    """Rebuild the run of two files."""
    shown = record.from_json(Path(arguments[0]).read_bytes())
    log = Path(arguments[1]).read_text()
    home = Home(settings.load(os.environ, settings.settings_files(), {})[0].home)
    sys.stdout.write(f"{rebuild(shown, log, home).id}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
