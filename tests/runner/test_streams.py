"""Commands whose stdout or stderr is full, closed, or left by its reader."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runner.core import Reason
from tests.program import RAI, Streams, rai, run_program

pytestmark = pytest.mark.programs

READING = [
    "runs",
    "runs --json",
    "show latest",
    "show latest --json",
    "logs latest",
    "logs latest --json",
    "parse log",
    "--version",
    "doctor --json",
    "validate --json",
    "--help",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a project and a home with one run that printed more than a pipe holds."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "rai_build.yml").write_text(
        "rai: {image: gcc}\ncommands: {build: [seq 1 30000]}\n"
    )
    (folder / "log").write_text("New Inference\nOp Time: 0.25\n")
    done = sh("run --engine bare", folder)
    assert done.returncode == 0, done.stderr
    return folder


def sh(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run rai by a shell, which redirects its streams."""
    environment = {**os.environ, "RAI_HOME": str(folder / "home")}
    environment.pop("PYTHONUNBUFFERED", None)
    return run_program(
        ["bash", "-o", "pipefail", "-c", f"{RAI} {line}"], cwd=folder, env=environment
    )


def given(
    line: str, folder: Path, streams: Streams
) -> subprocess.CompletedProcess[str]:
    """Run rai with some of its streams closed or in a file."""
    environment = {**os.environ, "RAI_HOME": str(folder / "home")}
    return rai(*line.split(), cwd=folder, env=environment, streams=streams)


@pytest.mark.parametrize("command", READING)
def test_output_for_a_full_disk_is_told_and_ends_as_such(command, folder):
    done = given(command, folder, {1: "/dev/full"})

    assert done.returncode == Reason.DISK_FULL.exit_code
    assert done.stderr == "cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize("command", READING)
def test_output_for_a_closed_stdout_is_told_and_ends_with_ten(command, folder):
    done = given(command, folder, {1: None})

    assert done.returncode == 10
    assert done.stderr == "cannot write to stdout: it is closed\n"


@pytest.mark.parametrize("streams", [">&-", "<&- >&-"])
def test_so_it_is_for_a_program_that_starts_like_this(streams, folder):
    done = sh(f"version {streams}", folder)

    assert done.returncode == 10
    assert done.stderr == "cannot write to stdout: it is closed\n"


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize(
    "streams", [{0: None, 2: None}, {2: "/dev/full"}], ids=["closed", "full"]
)
def test_streams_that_are_closed_or_full_of_messages_do_not_matter(
    streams, command, folder
):
    done = given(command, folder, streams)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize("command", READING)
def test_a_reader_that_leaves_ends_a_command_without_a_word(command, folder):
    done = sh(f"{command} | true", folder)

    # A reader may take all before it leaves.
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_a_reader_that_leaves_long_output_ends_the_command_as_a_signal_would(folder):
    done = sh("logs latest | head -n 1", folder)

    assert (done.returncode, done.stdout, done.stderr) == (141, "1\n", "")


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full"])
def test_a_run_goes_on_without_its_streams_and_is_recorded(streams, folder):
    done = sh(f"run --engine bare {streams}", folder)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    shown = json.loads(sh("show latest --json", folder).stdout)
    assert (shown["state"], shown["stdout_bytes"]) == ("done", 168894)


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", "2>&- >&-"])
@pytest.mark.parametrize("command", ["show nope", "run -p nowhere", "parse nothing"])
def test_an_error_keeps_its_exit_status_where_it_cannot_be_told(
    streams, command, folder
):
    done = sh(f"{command} {streams}", folder)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
