"""Runs whose Docker daemon stops answering, for a while or for good."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.engines.test_docker_daemon import own, rai
from tests.kit.daemon import Daemon
from tests.kit.running import IMAGE, left_on
from tests.kit.waiting import until

__all__ = ["own"]

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PAUSE_S = 5.0
GIVEN_UP_S = 240.0
"""More than a call's time-out, and those of what is then removed in vain."""

LINES = "sh -c 'for n in 1 2 3; do echo $n; sleep 1; done; echo kept > kept'"
MOMENTS = ["Created", "EngineChosen", "Packed", "Starting", "Output", "CommandFinished"]


def paused(
    own: Daemon, folder: Path, moment: str
) -> tuple[subprocess.Popen[bytes], Path]:
    """Start a run, and stop its daemon after an event; return it and its folder."""
    project = folder / "project"
    project.mkdir()
    spec = {"rai": {"version": 0.2, "image": IMAGE}, "commands": {"build": [LINES]}}
    (project / "rai_build.yml").write_text(json.dumps(spec))
    words = ("run", "-p", str(project), "--engine", "docker")
    run = rai(own, folder / "home", *words)
    events = "home/runs/*/events.jsonl"
    until(lambda: any(f'"{moment}"' in e.read_text() for e in folder.glob(events)))
    own.signal(signal.SIGSTOP)
    (root,) = folder.glob("home/runs/[!.]*")
    return run, root


def reason(root: Path) -> str:
    record = json.loads((root / "record.json").read_bytes())
    return str(record["verdict"]["reason"])


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_goes_on_after_its_daemon_paused(own, tmp_path, moment):
    run, root = paused(own, tmp_path, moment)
    time.sleep(PAUSE_S)
    own.signal(signal.SIGCONT)

    said, _ = run.communicate(timeout=GIVEN_UP_S)

    assert (run.returncode, reason(root)) == (0, "done"), said
    assert (root / "stdout.log").read_bytes() == b"1\n2\n3\n"
    assert (root / "build.tar.zst").exists()
    client = own.client()
    assert left_on(client) == []
    client.close()


@pytest.mark.parametrize("moment", ["Created", "Starting", "Output"])
def test_a_run_whose_daemon_never_answers_again_ends(own, tmp_path, moment):
    run, root = paused(own, tmp_path, moment)
    try:
        said, _ = run.communicate(timeout=GIVEN_UP_S)
    finally:
        run.kill()
        own.signal(signal.SIGCONT)

    assert (run.returncode, reason(root)) == (10, "runner_lost"), said
    assert b"no longer answers" in said
