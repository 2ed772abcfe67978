"""Run one shell line on the Docker engine: a process that a test can kill.

``python -m tests.kit.one_docker_run PROFILE RUN_ID LINE``
"""

from __future__ import annotations

import sys

from runner.core import Profile
from runner.engines.docker import DockerEngine
from tests.kit.running import IMAGE, Subject, run


def main(profile: str, run_id: str, line: str) -> int:
    """Run the line; return its exit code."""
    subject = Subject(DockerEngine(), IMAGE)
    return run(subject, [line], profile=Profile(profile), run_id=run_id).codes[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
