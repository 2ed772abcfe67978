"""Units for systemd."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from runner.server import systemd
from tests.kit.calling import rai

WORDS = ["--listen", "[::]:8443", "--url", "https://x/%20$HOME a"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
@pytest.mark.parametrize("docker", [True, False])
def test_systemd_takes_the_units(tmp_path, docker):
    made = systemd.unit_files(sys.executable, sys.executable, WORDS, docker=docker)
    units = [name for name in made if name != systemd.USERS]
    for name in units:
        (tmp_path / name).write_text(made[name])
    done = subprocess.run(
        [
            *("systemd-analyze", "verify", "--man=no"),
            *(name.replace("@.", "@1.") for name in units),
        ],
        cwd=tmp_path,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:/lib/systemd/system"},
        capture_output=True,
        text=True,
        check=False,
    )
    mine = [line for line in done.stderr.splitlines() if "rai-" in line]
    assert mine == []
    assert done.returncode == 0


def test_only_workers_may_use_docker_and_only_the_server_may_start_one():
    made = systemd.unit_files(
        "/opt/rai/bin/rai", "/opt/rai/bin/python", [], docker=True
    )
    assert "docker" in made[systemd.WORKER_UNIT]
    assert "docker" not in made[systemd.SERVER_UNIT]
    without = systemd.unit_files("/x", "/y", [], docker=False)
    assert "docker" not in without[systemd.WORKER_UNIT]
    socket = made[systemd.SOCKET_UNIT].splitlines()
    assert {"Accept=yes", "SocketMode=0660", "SocketGroup=rai-server"} <= set(socket)


def test_systemd_changes_nothing_of_the_words():
    line = next(
        line
        for line in systemd.unit_files("/o p/rai", "/x", WORDS, docker=False)[
            systemd.SERVER_UNIT
        ].splitlines()
        if line.startswith("ExecStart=")
    )
    assert line.startswith('ExecStart="/o p/rai" server serve ')
    assert line.endswith('"https://x/%%20$$HOME a"')


def test_units_are_written_once_and_changed_ones_are_kept(tmp_path):
    words = ("server", "units", "--dir", str(tmp_path))
    assert rai(*words).returncode == 0
    assert rai(*words).returncode == 0
    unit = tmp_path / systemd.SERVER_UNIT
    unit.write_text("mine\n")
    done = rai(*words)
    assert done.returncode == 2
    assert systemd.SERVER_UNIT in done.stderr
    assert unit.read_text() == "mine\n"
    assert rai(*words, "--force").returncode == 0
    assert "ExecStart" in unit.read_text()
