"""The pyxis engine, with a stand-in for srun; it was never tried with a real pyxis."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from runner import doctor, engines
from runner.core import (
    BuildImage,
    BuildSpec,
    DataFile,
    DataMount,
    ImageAction,
    ImagePlan,
    Place,
    Workspace,
)
from runner.core.cancel import Cancel
from runner.core.errors import EngineError, ImageError
from runner.core.events import ImageReady, PullStarted
from runner.core.policy import AllowList, Policy
from runner.engines.pyxis import PyxisEngine, words
from runner.engines.pyxis.words import NodeMount, Reported
from runner.session.rules import refused
from tests.runner.engines.contract import *  # noqa: F403 - the tests are the contract's
from tests.runner.engines.running import RUN_ID, Subject, long_sleep, run, shell

pytestmark = pytest.mark.programs

# The local engine streams by the same code, and runs the slowest of these tests.
del (
    test_a_hundred_megabytes_of_lines_arrive_whole_and_in_order,  # noqa: F821
    test_a_line_of_a_hundred_megabytes_arrives_whole,  # noqa: F821
    test_each_round_has_the_time_of_the_job,  # noqa: F821
)

# It has no limits but the job's, and does not confine.
del (
    test_a_strict_run_is_not_root_and_can_never_become_it,  # noqa: F821
    test_a_run_that_was_given_no_gpu_has_no_device_file_of_one,  # noqa: F821
    test_a_run_has_its_gpus_device_files_alone_and_the_drivers_own_files_read_only,  # noqa: F821
    test_a_strict_run_gives_up_nothing_of_its_confinement_for_a_gpu,  # noqa: F821
    test_nvidia_smi_lists_the_granted_gpu_and_no_other,  # noqa: F821
    test_a_command_sees_its_own_processes_alone,  # noqa: F821
)

IMAGE = "debian:bookworm-slim"
SPEC = BuildSpec("rai_build.yml", image=IMAGE)
STANDIN = Path(__file__).with_name("standin_srun.py")
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(autouse=True)
def containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of Slurm where srun is the stand-in; the folder of its containers."""
    if shutil.which("bwrap") is None:
        pytest.skip("the stand-in for srun needs bubblewrap")
    programs, kept = tmp_path / "programs", tmp_path / "containers"
    programs.mkdir()
    kept.mkdir()
    srun = programs / "srun"
    srun.write_text(f'#!/bin/sh\nexec {sys.executable} -S {STANDIN} "$@"\n')
    srun.chmod(0o755)
    # Removes containers as enroot does, which has a name for each of pyxis' scopes.
    enroot = programs / "enroot"
    enroot.write_text(f'#!/bin/sh\nrm -rf "{kept}/${{3#pyxis_}}"\n')
    enroot.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN_FOLDER", str(kept))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_NTASKS", "3")
    monkeypatch.setenv("PYXIS_CONTAINER_MOUNTS", "/:/host")
    return kept


@pytest.fixture
def subject() -> Subject:
    return Subject(PyxisEngine(), IMAGE)


@pytest.fixture
def confined(subject: Subject) -> Subject:
    """Those of these tests that hold although processes and networks are shared."""
    return subject


def plan(reference: str) -> ImagePlan:
    return ImagePlan(ImageAction.PULL, reference, "a test")


# Where it serves


def test_it_serves_in_a_slurm_job_whose_srun_has_pyxis():
    assert PyxisEngine().check(SPEC) == []


def test_outside_a_slurm_job_it_says_so_without_starting_anything(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    (problem,) = PyxisEngine(environ={}).check(SPEC)
    assert "not inside a Slurm job" in problem.message
    assert "--on slurm" in problem.hint


def test_without_pyxis_it_names_the_option_that_srun_lacks(monkeypatch):
    monkeypatch.setenv("STANDIN_WITHOUT", "container-image container-mounts")
    (problem,) = PyxisEngine().check(SPEC)
    assert "--container-image, --container-mounts" in problem.message


def test_without_srun_it_is_told_that_it_cannot_be_started(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (problem,) = PyxisEngine().check(SPEC)
    assert "`srun` cannot be started" in problem.message


def test_help_without_end_is_cut_off(tmp_path: Path):
    (tmp_path / "programs" / "srun").write_text("#!/bin/sh\nyes\n")
    (problem,) = PyxisEngine().check(SPEC)
    assert "does not list --container-image" in problem.message


@pytest.mark.parametrize(
    "spec",
    [
        BuildSpec("rai_build.yml"),
        BuildSpec("rai_build.yml", build_image=BuildImage(dockerfile="Dockerfile")),
    ],
)
def test_a_project_whose_image_is_built_is_refused_with_what_to_do(spec: BuildSpec):
    (problem,) = PyxisEngine().check(spec)
    assert "cannot build images" in problem.message
    assert "push" in problem.hint


def test_an_image_named_by_its_digest_is_refused():
    spec = BuildSpec("rai_build.yml", image=f"debian@{DIGEST}")
    (problem,) = PyxisEngine().check(spec)
    assert "no image by its digest" in problem.message
    with pytest.raises(ImageError, match="no image by its digest"):
        list(PyxisEngine().prepare(plan(f"debian@{DIGEST}"), None, Cancel()))


def test_auto_takes_it_after_docker_and_before_local(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert engines.choose("auto", SPEC, ci=False).engines[0].name == "pyxis"
    assert engines.choose("auto", SPEC, ci=True).engines[0].name != "pyxis"
    monkeypatch.delenv("SLURM_JOB_ID")
    assert engines.choose("auto", SPEC, ci=False).engines[0].name == "local"


def test_doctor_lists_it_where_slurm_is(tmp_path: Path, monkeypatch):
    def subjects() -> list[str]:
        return [found.subject for found in doctor.examine(tmp_path, None)]

    monkeypatch.setattr(engines, "TABLE", {"pyxis": "PyxisEngine"})
    assert "engine pyxis" in subjects()
    (tmp_path / "programs" / "srun").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    assert "engine pyxis" not in subjects()


def test_it_says_that_it_enforces_neither_limits_nor_isolation():
    facts = PyxisEngine().facts()
    assert not facts.confines
    assert {"memory", "pids", "network", "isolation"} <= set(facts.unenforced)


def test_the_images_that_a_site_allows_are_asked_of_it(tmp_path: Path):
    spec = replace(SPEC, image="other:1")  # noqa: F405
    listed = AllowList(("debian:*",), Place("policy.yml", 1, 1))
    rules = Policy(images=(listed,))
    for name in ("pyxis", "docker"):
        assert refused(spec, Profile.STRICT, rules, name), name  # noqa: F405
    assert not refused(SPEC, Profile.STRICT, rules, "pyxis")  # noqa: F405


# Images and containers


def test_an_image_is_imported_once_and_the_run_takes_its_container(
    subject: Subject, containers: Path
):
    first, last = list(subject.engine.prepare(plan(IMAGE), None, Cancel()))
    assert isinstance(first, PullStarted)
    assert isinstance(last, ImageReady)
    assert (last.image.reference, last.image.digest) == (IMAGE, "")
    (made,) = containers.iterdir()
    result = run(subject, ["echo a", "echo b >&2"])
    assert (result.stdout, result.stderr) == (b"a\n", b"b\n")
    assert list(containers.iterdir()) == []
    assert made.name.startswith("rai-")


def test_an_image_that_is_not_there_is_told_with_what_enroot_said(containers: Path):
    with pytest.raises(ImageError) as raised:
        list(PyxisEngine().prepare(plan("missing:1"), None, Cancel()))
    assert raised.value.reason is Reason.IMAGE_NOT_FOUND  # noqa: F405 - the contract's
    assert "[ERROR] no missing:1" in str(raised.value)


def test_an_image_that_prints_without_end_at_its_start_is_refused(tmp_path: Path):
    srun = tmp_path / "programs" / "srun"
    text = srun.read_text()
    srun.write_text(f'#!/bin/sh\ncase "$*" in *command*) yes;; esac\n{text}')
    with pytest.raises(ImageError, match="it printed too much"):
        list(PyxisEngine().prepare(plan(IMAGE), None, Cancel()))


def test_a_cancelled_import_is_no_failure():
    cancel = Cancel()
    cancel.request()
    events = list(PyxisEngine().prepare(plan(IMAGE), None, cancel))
    assert [type(event) for event in events] == [PullStarted]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("debian:12", "docker://debian:12"),
        ("docker.io/library/debian:12", "docker://debian:12"),
        ("someone/project:1", "docker://someone/project:1"),
        ("nvcr.io/nvidia/cuda:13", "docker://nvcr.io#nvidia/cuda:13"),
        ("localhost:5000/a/b:1", "docker://localhost:5000#a/b:1"),
    ],
)
def test_the_registry_of_an_image_is_set_apart_as_enroot_wants_it(
    reference: str, expected: str
):
    assert words.uri(reference) == expected


def test_options_that_an_older_pyxis_lacks_are_not_given():
    older = frozenset({*words.NEEDED, "--container-remap-root"})
    strict = words.container(older, "rai-1", IMAGE)
    assert strict == ["--container-image=docker://" + IMAGE, "--container-name=rai-1"]
    compatible = words.container(older, "x", IMAGE, Profile.COMPATIBLE)  # noqa: F405
    assert "--container-remap-root" in compatible


def test_mounts_say_which_may_be_written():
    binds = [
        NodeMount(Path("/a"), "/src"),
        NodeMount(Path("/b"), "/build", writable=True),
    ]
    given = words.container(frozenset(words.NEEDED), "x", IMAGE, binds=binds)
    assert "--container-mounts=/a:/src:ro,/b:/build:rw" in given


def test_a_folder_that_srun_cannot_mount_is_told(subject, tmp_path, monkeypatch):
    (tmp_path / "a,b").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "a,b"))
    with pytest.raises(EngineError, match="cannot mount"):
        run(subject, ["true"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3\n0m0.00s 0m0.01s\n1m1.50s 0m0.25s\n", Reported(3, 61.75)),
        ("0\n", Reported(0)),
        ("", None),
        ("-1\n", None),
        ("9999999\n", None),
        ("\u0663\n", None),
    ],
)
def test_what_a_command_may_have_forged_is_a_report_or_nothing(text: str, expected):
    assert words.reported(text) == expected


# Commands


def test_what_srun_and_pyxis_print_is_not_the_commands_own(subject: Subject):
    result = run(subject, ["echo own >&2; exit 3"])
    assert (result.codes, result.stderr) == ([3], b"own\n")


def test_a_command_that_kills_its_group_or_removes_its_report_did_not_succeed(
    subject: Subject,
):
    assert run(subject, ["kill -9 0"]).codes == [137]
    hidden = "(sleep 0.5; rm -f /run/rai-reports/*) & exit 0"
    assert run(subject, [hidden]).codes == [0]


def test_a_report_that_is_no_file_is_not_followed(subject: Subject):
    script = (
        "t=$(ls /run/rai-reports | sed s/.start//); mkdir /run/rai-reports/$t.new"
        "; ln -s /dev/zero /run/rai-reports/$t"
    )
    with pytest.raises(EngineError, match="how the command ended"):
        run(subject, [script])


def test_a_step_that_slurm_cannot_start_is_the_engines_failure(subject, tmp_path):
    engine = subject.engine
    assert engine.check(SPEC) == []
    (tmp_path / "programs" / "srun").write_text(
        '#!/bin/sh\ncase "$*" in *command\\ -v*) exit 0;; esac\n'
        "echo 'srun: error: Unable to create step' >&2; exit 1\n"
    )
    with pytest.raises(EngineError, match="Unable to create step"):
        run(subject, ["true"])


def test_the_end_of_a_time_limit_ends_all_that_a_command_started(subject: Subject):
    sleep = long_sleep()
    script = f"(setsid {sleep} &); echo go; trap '' TERM; {sleep}"
    result = run(subject, [shell(script, timeout_s=1.5)], stop_grace_s=0.5)
    assert result.finished[0].reason is Reason.TIME_LIMIT  # noqa: F405
    commands = [
        path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    ]
    assert sleep not in commands


def test_data_in_the_project_is_copied_and_other_data_is_mounted(
    subject: Subject, tmp_path: Path
):
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "own").write_bytes(b"own")
    (tmp_path / "far").write_bytes(b"far")
    md5s = [hashlib.md5(b, usedforsecurity=False).hexdigest() for b in (b"own", b"far")]  # noqa: F405
    files = (
        DataFile("own", tmp_path / "p" / "own", md5s[0], 3, tmp_path / "p"),
        DataFile("far", tmp_path / "far", md5s[1], 3),
    )
    result = run(
        subject,
        ["cat /data/set/own /data/set/far"],
        data=[DataMount("/data/set", files)],
    )
    assert result.stdout == b"ownfar"


def test_what_a_step_is_given_of_the_environment_is_little(subject, monkeypatch):
    monkeypatch.setenv("MINE", "secret")
    result = run(subject, ["echo ${MINE-none} $SLURM_JOB_ID"])
    assert result.stdout == b"none 7\n"


def test_there_are_no_terminals_and_srun_is_named(subject: Subject):
    work = Workspace(run_id=RUN_ID, steps=(), open_source=None, image=IMAGE)
    with pytest.raises(EngineError, match="no terminals"):
        subject.engine.shell(work, None, Cancel())


def test_nothing_is_left_of_a_run(subject, containers, tmp_path, monkeypatch):
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    result = run(subject, ["mkdir -p a/b; touch a/b/c; chmod 0 a/b"])
    assert result.codes == [0]
    assert list((tmp_path / "t").iterdir()) == []
    assert list(containers.iterdir()) == []
