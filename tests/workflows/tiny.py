"""A project of one command, `final`, which prints the figures it is told to."""

from __future__ import annotations

BUILD_FILE = """\
rai: {{version: 0.2, image: "debian:bookworm-slim"}}
commands:
  build:
    - name: final
      run: {command}
"""


def files(op_time: float = 0.5, command: str = "") -> dict[str, str]:
    """Return the files of a project that prints this op time, or runs the command."""
    told = (
        command or f'echo "Op Time: {op_time}"; echo "Correctness: 0.9 Model: ece408"'
    )
    return {"rai_build.yml": BUILD_FILE.format(command=repr(told))}
