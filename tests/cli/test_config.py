"""Settings and their order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner import engines
from runner.client import profile
from runner.core import GIB, Profile, Severity
from runner.core.errors import ConfigError
from runner.store import settings
from tests.kit.odd_files import sparse

INF = float("inf")


def written(folder: Path, text: str, name: str = "config.yml") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(text)
    return file


def test_without_files_variables_and_flags_the_defaults_hold(tmp_path):
    found, warnings = settings.load({}, [tmp_path / "absent.yml"], {})
    assert (found.engine, found.profile) == ("auto", None)
    assert found.download and found.data_dir is None and found.home.is_absolute()
    assert warnings == []


def test_a_flag_goes_over_a_variable_over_the_users_file_over_the_machines(tmp_path):
    machine = written(
        tmp_path / "etc",
        "engine: bare\ngpu_wait: 1m\ndownload: no\nprofile: strict\n",
    )
    user = written(
        tmp_path / "user", "engine: local\ngpu_wait: 2m\nprofile: compatible\n"
    )
    found, _ = settings.load(
        {"RAI_ENGINE": "docker", "RAI_GPU_WAIT": "3m"},
        [machine, user],
        {"gpu_wait": "4m", "engine": None},
    )
    assert found.gpu_wait == 240
    assert found.engine == "docker"
    assert found.profile is Profile.COMPATIBLE
    assert not found.download


def test_every_variable_is_read(tmp_path):
    found, _ = settings.load(
        {
            "RAI_ENGINE": "local",
            "RAI_PROFILE": "strict",
            "RAI_HOME": str(tmp_path),
            "RAI_DATA_DIR": str(tmp_path / "data"),
            "RAI_DOWNLOAD": "no",
        },
        [],
        {},
    )
    assert found == settings.Settings(
        home=tmp_path,
        engine="local",
        profile=Profile.STRICT,
        data_dir=tmp_path / "data",
        download=False,
    )


def test_an_empty_variable_counts_as_none(tmp_path):
    found, _ = settings.load({"RAI_ENGINE": "", "RAI_HOME": " "}, [], {})
    assert found.engine == "auto" and found.home.name == "rai"


def test_paths_are_relative_to_the_file_that_says_them_else_to_the_folder(
    tmp_path, monkeypatch
):
    file = written(tmp_path / "etc", "data_dir: sets\nhome: ~/rai\n")
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.chdir(tmp_path)
    found, _ = settings.load({}, [file], {})
    assert found.data_dir == tmp_path / "etc" / "sets"
    assert found.home == Path("/home/someone/rai")
    found, _ = settings.load({"RAI_HOME": "here"}, [], {})
    assert found.home == tmp_path / "here"


def test_all_problems_come_at_once_each_with_its_place_or_variable(tmp_path):
    file = written(tmp_path, "engine: podman\nprofile: much\ndownload: perhaps\n")
    with pytest.raises(ConfigError) as caught:
        settings.load({"RAI_GPU_WAIT": "long"}, [file], {"profile": "lax"})
    shown = str(caught.value)
    for part in (
        f"{file}:1:9: engine is ",
        f"{file}:2:10: profile is ",
        f"{file}:3:11: download is ",
        'RAI_GPU_WAIT is "long"; expected a time such as 10m',
        '--profile is "lax"; expected strict or compatible',
    ):
        assert part in shown
    assert caught.value.reason.exit_code == 2


def test_an_unknown_key_is_a_warning_with_a_suggestion(tmp_path):
    file = written(tmp_path, "engnie: local\n")
    found, (warning,) = settings.load({}, [file], {})
    assert found.engine == "auto"
    assert warning.severity is Severity.WARNING
    assert "engnie" in str(warning) and "`engine`" in str(warning)
    assert str(warning).startswith(f"{file}:1:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine: [local\n", ":1:9"),
        ("a: 1\na: 2\n", ":2:1"),
    ],
)
def test_a_settings_file_that_is_no_mapping_is_an_error_with_its_place(
    tmp_path, text, said
):
    file = written(tmp_path, text)
    with pytest.raises(ConfigError, match=said):
        settings.load({}, [file], {})


def test_an_empty_settings_file_sets_nothing(tmp_path):
    found, _ = settings.load({}, [written(tmp_path, "# nothing yet\n")], {})
    assert found.engine == "auto"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "cannot be read"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
        (lambda path: sparse(path, 8 * GIB), "it is larger than 1,048,576 bytes"),
    ],
)
def test_a_settings_file_that_is_none_is_neither_waited_for_nor_read(
    tmp_path, make, said
):
    make(tmp_path / "config.yml")
    with pytest.raises(ConfigError, match=said):
        settings.load({}, [tmp_path / "config.yml"], {})


def test_every_engine_can_be_asked_for_in_the_settings():
    for name in settings.ENGINES[1:]:
        assert engines.make(name).name == name


def test_the_users_file_lies_in_the_users_configuration_folder(home):
    machine, user = settings.settings_files()
    assert machine == Path("/etc/rai/config.yml")
    assert user == home / "config" / "rai" / "config.yml"


def test_a_wrong_variable_is_reported_as_the_variable_beside_its_option():
    environ = {"RAI_ENGINE": "podman", "RAI_GPU_WAIT": "soon"}
    with pytest.raises(ConfigError) as caught:
        settings.load(environ, [], {"engine": "lxc"})
    assert [str(problem) for problem in caught.value.problems] == [
        'RAI_ENGINE is "podman"; expected auto, docker, local or bare',
        '--engine is "lxc"; expected auto, docker, local or bare',
        'RAI_GPU_WAIT is "soon"; expected a time such as 10m',
    ]


@pytest.mark.parametrize(
    ("text", "keep_for", "keep_size"),
    [
        ("7d", 7 * 86_400.0, None),
        ("none", INF, INF),
        ("0", INF, INF),
    ],
)
def test_how_long_and_how_much_is_kept_can_be_turned_off(
    tmp_path, text, keep_for, keep_size
):
    file = written(tmp_path, f"keep_for: {text}\n")
    assert settings.load({}, [file], {})[0].keep_for == keep_for
    if keep_size is not None:
        found, _ = settings.load({"RAI_KEEP_SIZE": text}, [], {})
        assert found.keep_size == keep_size
        assert found.keep_for == 30 * 86_400


def test_a_size_to_keep_that_is_none_is_a_problem_with_its_option():
    with pytest.raises(ConfigError, match=r'--size is "much".*expected a size such as'):
        settings.load({}, [], {"keep_size": "much"})


@pytest.mark.parametrize("keep", [(INF, INF), (7 * 86_400.0, 3 * GIB)])
def test_another_process_reads_the_same_bounds_from_its_variables(tmp_path, keep):
    known = settings.Settings(tmp_path, keep_for=keep[0], keep_size=keep[1])
    found, _ = settings.load(settings.variables(known), [], {})
    assert (found.keep_for, found.keep_size) == keep


def test_words_for_sbatch_are_a_list_in_a_file_and_a_line_in_a_variable(tmp_path):
    machine = written(tmp_path / "etc", "slurm: [--account=staff]\n")
    text = "server: slurm:gpu\nslurm: [--qos=short, '--comment=two words']\n"
    user = written(tmp_path / "user", text)
    found = settings.find({}, [machine, user], {})
    assert found.warnings == []
    assert found.settings.server == "slurm:gpu"
    assert found.settings.slurm == ("--qos=short", "--comment=two words")
    assert found.origins["slurm"] == f"file:{user}:2"
    again, _ = settings.load(settings.variables(found.settings), [], {})
    assert again == found.settings
    other, _ = settings.load({"RAI_SLURM": "--qos=night --nice=1"}, [user], {})
    assert other.slurm == ("--qos=night", "--nice=1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slurm: --nice=1", 'slurm is "--nice=1"'),
        ("slurm: {qos: x}", "slurm is a mapping"),
        ("slurm: [--wrap=id, --nice=1]", "slurm is [--wrap=id --nice=1]"),
        ("slurm: [[--nice=1]]", "slurm is ['']"),
    ],
)
def test_what_is_wrong_about_slurm_is_told_when_settings_are_read(tmp_path, text, said):
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        settings.load({}, [file], {})
    (problem,) = caught.value.problems
    assert said in str(problem)
    assert f"{file}:1" in str(problem)
    with pytest.raises(ConfigError, match="RAI_SLURM is"):
        settings.load({"RAI_SLURM": "--array=1-9"}, [], {})


@pytest.mark.parametrize("text", ["slurm", "slurm:gpu", "slurm:gpu-a100.short"])
def test_runs_may_go_to_slurm_in_place_of_a_server(text):
    found, _ = settings.load({"RAI_SERVER": text}, [], {})
    assert found.server == text
    assert profile.chosen(None, found, {}) is None
    assert profile.chosen(text, settings.load({}, [], {})[0], {}) is None
