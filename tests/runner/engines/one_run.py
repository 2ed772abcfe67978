"""Run one shell line on the local or bare engine, as whoever starts this program.

``python -m tests.runner.engines.one_run KIND TIME LINE``; KIND is a kind of sandbox, or
"bare". What the line says is said, and its exit code is given.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runner.engines.bare import BareEngine
from runner.engines.local import LocalEngine
from tests.runner.engines.running import Subject, run


def main(kind: str, time: str, line: str) -> int:
    engine = (
        BareEngine(time=Path(time))
        if kind == "bare"
        else LocalEngine(kind=kind, time=Path(time))
    )
    result = run(Subject(engine), [line])
    sys.stdout.buffer.write(result.stdout)
    sys.stderr.buffer.write(result.stderr)
    return result.codes[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
