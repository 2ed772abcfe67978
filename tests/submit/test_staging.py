"""The folder of each run: what it holds, and that nothing else gets in."""

from __future__ import annotations

import io
import stat
import tarfile
from pathlib import Path

import pytest

from runner.core import work
from runner.core.errors import NotAllowedError, RaiError
from runner.core.milestone import Held, HeldKind, Milestone
from runner.pack import survey
from runner.pack.write import zstd
from runner.spec import buildfile, milestones
from runner.submit import files, planning, staging
from runner.submit.staging import StagedParts, StagingArea
from tests.kit import sample_submission as sample
from tests.submit.test_golden import release

CUBIN = b"\x7fELF machine code"


@pytest.fixture
def judge(tmp_path: Path) -> staging.GoldenFiles:
    names = ("__init__", "bounded", "compiling", "measuring")
    modules = {f"{name}.py": f"# golden {name}\n" for name in names}
    others = {
        "kernels.ptx": "//\n",
        "Dockerfile": "FROM x\n",
        "requirements.txt": "#\n",
    }
    return staging.judge_files(release(tmp_path / "judge", **modules, **others))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return sample.write(tmp_path / "project")


@pytest.fixture
def final() -> Milestone:
    return milestones.find("final")


def parts(
    project: Path, milestone: Milestone, judge: staging.GoldenFiles
) -> StagedParts:
    found = files.look(project, milestone)
    job, problems = planning.job(milestone, "sm_90", "", found.plan, found.digests)
    assert found.problems == problems == ()
    return StagedParts(judge, found.team, job)


def inside(folder: Path) -> set[str]:
    found = (p for p in folder.rglob("*") if not p.is_dir())
    return {path.relative_to(folder).as_posix() for path in found}


def archive(path: Path, *contents: tuple[str, bytes | tarfile.TarInfo]) -> Path:
    """Write a build archive; names have `_` for their dot."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, content in contents:
            full = "build/" + name.replace("_", ".")
            if isinstance(content, tarfile.TarInfo):
                content.name = full
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(full)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(zstd.compress(raw.getvalue()))
    return path


RAI = {
    "rai_build.yml",
    ".raiignore",
    ".dockerignore",
    "Dockerfile",
    "requirements.txt",
}
PACKAGE = {"runner/__init__.py", "runner/judge/__init__.py"}


def test_the_compile_run_holds_the_teams_files_apart_from_the_judges(
    tmp_path, project, final, judge
):
    named = "project/cuda/runner/judge/compiling.cu"
    (project / named).parent.mkdir(parents=True)
    (project / named).touch()
    values = sample.plan(project)
    values["sources"][named] = work.digest_of(b"")
    sample.write_plan(project, values)
    with staging.area(tmp_path / "home") as area:
        folder = area.stage(final.run("compile"), parts(project, final, judge))
        assert inside(folder) == {
            *RAI,
            *PACKAGE,
            "job.json",
            "runner/judge/bounded.py",
            "runner/judge/compiling.py",
            "team/naive.cu",
            "team/runner/judge/compiling.cu",
        }
        # Whatever a team calls its sources, all of them are sent.
        assert {m.name for m in survey(folder).members} >= inside(folder)
        assert stat.S_IMODE(area.root.stat().st_mode) == 0o700
        spec, warnings = buildfile.parse((folder / "rai_build.yml").read_text(), "x")
        assert warnings == [] and spec.gpu is None
    assert not any((tmp_path / "home/submissions").iterdir())


def test_the_measure_run_holds_machine_code_and_no_source(
    tmp_path, project, final, judge
):
    left = {"compiled_json": b"{}", "0_cubin": CUBIN, "other_txt": b"", "naive_cu": b""}
    built = archive(tmp_path / "build.tar.zst", *left.items())
    with staging.area(tmp_path / "home") as area:
        folder = area.stage(
            final.run("measure"), parts(project, final, judge), {"compile": built}
        )
        assert inside(folder) == {
            *RAI,
            *PACKAGE,
            "job.json",
            "runner/judge/bounded.py",
            "runner/judge/compiling.py",
            "runner/judge/kernels.ptx",
            "runner/judge/measuring.py",
            "compiled/0.cubin",
            "compiled/compiled.json",
        }
        assert (folder / "compiled/0.cubin").read_bytes() == CUBIN


def link(target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ({"0_cubin": b"//\n.version 8.0"}, "0.cubin is not machine code"),
        ({"0_cubin": b""}, "0.cubin is not machine code"),
        ({"0_cubin": CUBIN, "1_cubin": CUBIN}, "1.cubin is not the machine code of"),
        ({"00_cubin": CUBIN}, "00.cubin is not the machine code of a unit"),
        ({"compiled_json": b"{}"}, "left no 0.cubin"),
        ({"0_cubin": link("/etc/passwd")}, "left no 0.cubin"),
        ({"0_cubin": link("x", tarfile.FIFOTYPE)}, "left no 0.cubin"),
        ({"0_cubin": link("build/other", tarfile.LNKTYPE)}, "left no 0.cubin"),
        ({"/../../x_cubin": CUBIN}, "leads out of its folder"),
    ],
)
def test_a_build_folder_with_what_no_compiler_makes_is_refused(
    tmp_path, project, final, judge, contents, says
):
    built = archive(tmp_path / "build.tar.zst", *contents.items())
    with (
        staging.area(tmp_path / "home") as area,
        pytest.raises(RaiError, match=says),
    ):
        area.stage(
            final.run("measure"), parts(project, final, judge), {"compile": built}
        )
    assert not any((tmp_path / "home/submissions").iterdir())


def test_a_build_folder_that_is_missing_or_damaged_is_said(
    tmp_path, project, final, judge
):
    measure, held = final.run("measure"), parts(project, final, judge)
    (tmp_path / "bad").write_bytes(b"nothing")
    for built, says in (
        ({}, "left no build folder"),
        ({"compile": tmp_path / "bad"}, "cannot be read"),
    ):
        with (
            staging.area(tmp_path / "home") as area,
            pytest.raises(RaiError, match=says),
        ):
            area.stage(measure, held, built)


def test_a_build_folder_over_its_bounds_is_refused(tmp_path):
    held = Held(HeldKind.BUILD, "compile", ("*.cubin",), most_bytes=1000)
    large = archive(tmp_path / "large", ("0_cubin", CUBIN + bytes(1000)))
    with pytest.raises(NotAllowedError, match="too large a file"):
        staging.take(held, large, tmp_path / "a", units=1)
    names = (f"{n}_txt" for n in range(staging.MOST_TAKEN + 1))
    many = archive(tmp_path / "many", *((name, b"") for name in names))
    with pytest.raises(NotAllowedError, match="members"):
        staging.take(held, many, tmp_path / "b", units=1)


def test_two_archived_files_of_one_name_are_refused(tmp_path, project, final, judge):
    named = [("0_cubin", CUBIN), ("0_cubin", CUBIN)]
    built = {"compile": archive(tmp_path / "build.tar.zst", *named)}
    with (
        staging.area(tmp_path / "home") as area,
        pytest.raises(NotAllowedError, match="twice"),
    ):
        area.stage(final.run("measure"), parts(project, final, judge), built)


def test_milestone_1_runs_the_milestones_commands_on_the_teams_project(
    tmp_path, project, judge
):
    (project / "rai_build.yml").write_text("commands: {build: [theirs]}\n")
    (project / "Dockerfile").write_text("FROM theirs\n")
    (project / "project/m1.1.py").touch()
    first = milestones.find("m1")
    with staging.area(tmp_path / "home") as area:
        folder = area.stage(first.run("cpu"), parts(project, first, judge))
        assert "theirs" not in (folder / "rai_build.yml").read_text()
        assert (folder / "Dockerfile").read_text() == "FROM theirs\n"
        assert (folder / "project/cuda/naive.cu").exists()
        assert not (folder / "runner").exists()


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_stays(tmp_path):
    left = tmp_path / "home/submissions/left"
    left.mkdir(parents=True)
    with staging.area(tmp_path / "home") as first:
        assert not left.exists()
        with staging.area(tmp_path / "home") as second:
            assert first.root.is_dir() and second.root.is_dir()
            assert isinstance(second, StagingArea)
        assert first.root.is_dir()
