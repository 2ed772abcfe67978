"""Run one shell line on the local or bare engine, as whoever starts this program.

``python -m tests.kit.one_run KIND TIME LINE``; KIND is a kind of sandbox, or
"bare". What the line says is said, and its exit code is given. A fourth word limits the
disk, in bytes; then the reason of the line's end is said too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runner.engines.bare import BareEngine
from runner.engines.local import LocalEngine
from tests.kit.running import Subject, run


def main(kind: str, time: str, line: str, disk: str = "") -> int:
    engine = (
        BareEngine(time=Path(time))
        if kind == "bare"
        else LocalEngine(kind=kind, time=Path(time))
    )
    limits = {"disk_bytes": int(disk), "stop_grace_s": 0.2} if disk else {}
    result = run(Subject(engine), [line], **limits)
    sys.stdout.buffer.write(result.stdout)
    sys.stderr.buffer.write(result.stderr)
    if disk:
        print(result.finished[0].reason)
    return result.codes[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
