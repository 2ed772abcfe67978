"""rai's home folder: whose it is, and what rai says where it cannot be used."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import ConfigError, UsageError
from runner.store import home, runs
from runner.store.paths import Home
from tests.kit.ordinary import USER, as_ordinary_user

MAIN = "from runner.cli.main import main; main()"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_rai_keeps_is_for_its_user_alone(tmp_path):
    made = home.make(tmp_path / "rai")

    assert mode(made.root) == 0o700
    assert mode(runs.create(made).root) == 0o700


def test_a_home_that_refuses_to_be_written_to_is_told_with_what_to_do():
    kernels = Home(Path("/sys/kernel"))  # refused to root too
    with pytest.raises(ConfigError) as caught:
        runs.create(kernels)
    assert "cannot write to /sys/kernel: " in str(caught.value)
    assert "set RAI_HOME to a folder that you can write to" in str(caught.value)


def test_a_name_that_is_not_text_names_no_run_and_is_none(tmp_path):
    made = home.make(tmp_path)
    name = os.fsdecode(b"\xff\x1b")
    made.run(name).root.mkdir(parents=True)

    assert home.list_runs(made) == []
    with pytest.raises(UsageError, match="no run"):
        home.find(made, name)


def in_home(owner: int, group: int, mode: int, *words: str) -> tuple[str, Any]:
    """Let the ordinary user run rai where its home is a folder with these rights."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        Path(folder, "rai_build.yml").write_text("commands: {build: ['true']}\n")
        place = Path(folder, "rai")
        place.mkdir()
        os.chown(place, owner, group)
        place.chmod(mode)
        names = [f"RAI_HOME={place}", f"XDG_CONFIG_HOME={folder}/config"]
        names.append(f"RAI_PROFILE_FILE={folder}/profile")
        words = tuple(word.format(project=folder) for word in words)
        argv = ["env", *names, sys.executable, "-c", MAIN, *words]
        return str(place), as_ordinary_user(argv, Path(folder))


@pytest.mark.root
@pytest.mark.programs
@pytest.mark.parametrize(
    ("owner", "mode", "status", "said"),
    [
        (1234, 0o777, 2, "another user, and everybody may write to it; set RAI_HOME"),
        (1234, 0o755, 0, ""),
        (0, 0o700, 2, "cannot be read; set RAI_HOME"),
        (0, 0o755, 0, ""),
        (int(USER), 0o700, 0, ""),
    ],
)
def test_a_home_of_another_user_that_everybody_may_write_to_is_refused(
    owner, mode, status, said
):
    _, done = in_home(owner, owner, mode, "ps")

    assert done.returncode == status, done.stderr
    assert said in done.stderr


@pytest.mark.root
@pytest.mark.programs
def test_a_run_warns_of_a_home_that_another_user_shares():
    words = ("run", "-p", "{project}", "--engine", "bare")
    place, done = in_home(1234, int(USER), 0o770, *words)

    assert done.returncode == 0, done.stderr
    assert f"{place} belongs to another user, who may" in done.stdout + done.stderr
