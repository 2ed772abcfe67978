"""Run one shell line on a terminal in a sandbox, as whoever starts this program.

``python -m tests.kit.one_shell KIND LINE``; what the terminal showed is
said, and the line's exit code is given.
"""

from __future__ import annotations

import sys

from runner.engines.local import LocalEngine
from tests.engines.test_shell import Typist, use


def main(kind: str, line: str) -> int:
    typist = Typist()
    result = use(LocalEngine(kind=kind), typist, line)
    sys.stdout.buffer.write(typist.seen)
    return result.finished[0].exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
