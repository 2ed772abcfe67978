"""Commands whose stdout or stderr is full, closed, or left by its reader."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runner.core import Reason
from tests.kit.program import RAI, Forked, Streams, rai, run_program

pytestmark = pytest.mark.programs

READING = ["runs", "show latest --json", "logs latest", "--version", "--help"]
reading = pytest.mark.parametrize("command", READING)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a project and a home with one run that printed more than a pipe holds."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "rai_build.yml").write_text(
        "rai: {image: gcc}\ncommands: {build: [seq 1 30000]}\n"
    )
    done = rai("run", "--engine", "bare", cwd=folder, env=environment(folder))
    assert done.returncode == 0, done.stderr
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "RAI_HOME": str(folder / "home")}


def started(
    line: str, folder: Path, streams: Streams, stdout: int = subprocess.PIPE
) -> Forked:
    return Forked(
        *line.split(),
        cwd=folder,
        env=environment(folder),
        stdout=stdout,
        stderr=subprocess.PIPE,
        streams=streams,
    )


def given(line: str, folder: Path, streams: Streams) -> tuple[int, str, str]:
    """Run rai with some of its streams closed or in a file."""
    child = started(line, folder, streams)
    out, error = child.communicate()
    return child.wait(), out, error


@reading
@pytest.mark.parametrize(
    ("stdout", "status", "why"),
    [
        ("/dev/full", Reason.DISK_FULL.exit_code, "No space left on device"),
        (None, 10, "it is closed"),
    ],
)
def test_output_that_cannot_be_written_is_told_and_ends_as_such(
    stdout, status, why, command, folder
):
    told = f"cannot write to stdout: {why}\n"
    assert given(command, folder, {1: stdout}) == (status, "", told)


@pytest.mark.parametrize("streams", [">&-", "<&- >&-"])
def test_so_it_is_for_a_program_that_starts_like_this(streams, folder):
    done = run_program(["bash", "-c", f"{RAI} version {streams}"])

    assert done.returncode == 10
    assert done.stderr == "cannot write to stdout: it is closed\n"


@reading
@pytest.mark.parametrize(
    "streams", [{0: None, 2: None}, {2: "/dev/full"}], ids=["closed", "full"]
)
def test_streams_that_are_closed_or_full_of_messages_do_not_matter(
    streams, command, folder
):
    status, out, error = given(command, folder, streams)

    assert (status, error) == (0, "")
    assert out


@reading
def test_a_reader_that_has_left_ends_a_command_without_a_word(command, folder):
    read, write = os.pipe()
    os.close(read)
    child = started(command, folder, {}, write)
    os.close(write)

    assert child.communicate() == ("", "")
    assert child.returncode == 141


def test_a_reader_that_leaves_long_output_ends_the_command_as_a_signal_would(folder):
    read, write = os.pipe()
    child = started("logs latest", folder, {}, write)
    os.close(write)
    with os.fdopen(read) as lines:
        assert lines.readline() == "1\n"

    assert child.communicate() == ("", "")
    assert child.returncode == 141


@pytest.mark.parametrize(
    "streams", [{1: None}, {2: None}, {0: None, 1: None, 2: None}, {1: "/dev/full"}]
)
def test_a_run_goes_on_without_its_streams_and_is_recorded(streams, folder):
    status, _, error = given("run --engine bare", folder, streams)

    assert status == 0
    assert "Traceback" not in error
    shown = json.loads(
        rai("show", "latest", "--json", cwd=folder, env=environment(folder)).stdout
    )
    assert (shown["state"], shown["stdout_bytes"]) == ("done", 168894)


@pytest.mark.parametrize("streams", [{2: None}, {2: "/dev/full"}, {1: None, 2: None}])
@pytest.mark.parametrize("command", ["show nope", "run -p nowhere", "parse nothing"])
def test_an_error_keeps_its_exit_status_where_it_cannot_be_told(
    streams, command, folder
):
    assert given(command, folder, streams) == (2, "", "")
