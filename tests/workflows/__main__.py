"""Carry out a job of a workflow here: python -m tests.workflows FILE JOB.

The job is that of a push to `main`: of the files of this checkout, as they are, over
those of --before, a commit, or without it over the same. What the scripts print comes
to stdout, and how each step ended after it. --keep names a new folder for what the
machine had in the end, such as artifacts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.workflows import jobs
from tests.workflows.machine import Machine
from tests.workflows.refused import RefusedError
from tests.workflows.repositories import earlier, snapshot


def main() -> int:
    """Carry out the job; return 0 if it succeeded."""
    told = argparse.ArgumentParser(
        prog="python -m tests.workflows", description=__doc__
    )
    told.add_argument("file", type=Path, metavar="FILE")
    told.add_argument("job", metavar="JOB")
    told.add_argument("--without", action="append", default=[], metavar="STEP")
    told.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    told.add_argument("--before", metavar="COMMIT")
    told.add_argument("--keep", type=Path, metavar="DIR")
    options = told.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        repository = folder / "repository"
        pushed = _pushed(repository, options.before)
        machine = Machine(folder / "runner", repository, pushed)
        try:
            scope = jobs.carry_out(
                jobs.read(options.file),
                options.job,
                machine,
                env=dict(each.split("=", 1) for each in options.env),
                without=options.without,
            )
        except RefusedError as error:
            sys.stderr.write(f"{error}\n")
            return 2
        sys.stdout.write("".join(machine.said))
        sys.stdout.writelines(f"{how:8}{name}\n" for name, how in scope.ended.items())
        return 0 if scope.state == "success" else 1


def _pushed(repository: Path, revision: str | None) -> dict[str, object]:
    """Return what GitHub says of a push of this checkout to `main`."""
    before = earlier(repository, revision) if revision else snapshot(repository)
    head = snapshot(repository)
    event = {"before": before, "repository": {"default_branch": "main"}}
    return {
        "sha": head,
        "ref": "refs/heads/main",
        "event_name": "push",
        "run_id": "1",
        "run_attempt": "1",
        "repository": "OWNER/rai",
        "event": event,
    }


if __name__ == "__main__":
    sys.exit(main())
