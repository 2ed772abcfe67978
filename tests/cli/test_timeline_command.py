"""`rai timeline` finds the profiler's file that is meant, and writes its page."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from image.nvprof.tests import recording
from runner import pack
from runner.cli.timeline import timeline
from runner.core import ProfileFile, State, record
from runner.core.errors import UsageError
from runner.pack import source
from runner.store import outputs
from runner.store.paths import Home
from tests.figures.test_nvprof_file import stored
from tests.kit import records


@pytest.fixture
def profile(tmp_path):
    return stored(tmp_path, recording.small(trace=True))


@pytest.fixture
def ended(home, profile, tmp_path):
    """A function that keeps a run with profiles, or other files, of these names."""
    at = Home(home / "rai")

    def keep(*names, noted=(), state=State.DONE):
        folder = tmp_path / "build"
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"no" if name.endswith(".txt") else profile.read_bytes())
        paths = at.run("ab12")
        paths.root.mkdir(parents=True)
        files = tuple(ProfileFile("nsys", one, 2) for one in noted)
        run = records.ended("ab12", records.command(profile_files=files), state=state)
        if not state.final:
            run = replace(run, ended_at=None, verdict=None)
        paths.record.write_bytes(record.to_json(run))
        if names:
            with pack.BuildWriter(paths.build) as writer:
                for data in source.pack(folder, "build"):
                    writer.write(data)

    return keep


def refused(*arguments):
    with pytest.raises(UsageError) as error:
        timeline(*arguments)
    (problem,) = error.value.problems
    return problem.finding


def test_a_file_of_this_machine_becomes_a_page(profile, tmp_path, capsys):
    timeline(str(profile), output=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<title>1.nvprof</title>" in page
    assert "spans in" in page
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'page.html'}.\n"


def test_the_only_profile_of_a_run_is_taken(ended, tmp_path):
    ended("deep/conv.nvprof", "notes.txt")
    timeline("ab", output=tmp_path / "page.html")
    title = "<title>deep/conv.nvprof of run ab12</title>"
    assert title in (tmp_path / "page.html").read_text()


def test_a_file_that_a_project_called_as_a_run_is_not_taken_for_it(
    ended, tmp_path, monkeypatch
):
    ended("p.nvprof")
    monkeypatch.chdir(tmp_path)
    for name in ("latest", "ab12"):
        Path(name).write_text("of the project")
        timeline(name, output=tmp_path / "page.html")
        assert "p.nvprof of run ab12" in (tmp_path / "page.html").read_text()
        with pytest.raises(UsageError, match="no trace that rai reads"):
            timeline(f"./{name}", output=tmp_path / "page.html")


def test_of_several_profiles_one_is_named(ended, tmp_path):
    ended("a.nvprof", "b.sqlite", "c.txt")
    assert refused("ab12") == (
        "run ab12 has 2 profiles; name one of them: a.nvprof, b.sqlite"
    )
    timeline("ab12", "/build/b.sqlite", tmp_path / "page.html")
    assert "b.sqlite of run ab12" in (tmp_path / "page.html").read_text()
    assert refused("ab12", "d.nvprof").startswith("run ab12 has no file d.nvprof")


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "/build/../a.nvprof"])
def test_nothing_outside_of_the_build_folder_is_read(name, ended):
    ended("b.nvprof")
    assert refused("ab12", name).startswith(f"run ab12 has no file {name}")


@pytest.mark.parametrize(
    ("names", "noted", "said"),
    [
        (["c.txt"], [], "nvprof -o"),
        (["c.txt"], ["r.nsys-rep"], "nsys export --type sqlite r.nsys-rep"),
        ([], [], "no build folder"),
    ],
)
def test_a_run_without_a_profile_says_how_to_get_one(names, noted, said, ended):
    ended(*names, noted=noted)
    assert said in refused("ab12")


def test_a_file_that_is_no_profile_is_refused(ended):
    ended("a.nvprof", "c.txt")
    assert "no trace" in refused("ab12", "c.txt")


def test_a_run_that_goes_on_has_its_build_folder_later(ended):
    ended(state=State.RUNNING)
    assert refused("ab12") == (
        "run ab12 has no build folder yet: it is running;"
        " it comes back at the end: rai wait ab12"
    )


@pytest.mark.parametrize("name", ["none/here", "trace.json", "m3.nvprof"])
def test_what_can_only_be_a_file_is_not_looked_for_among_runs(name, ended):
    ended("b.nvprof")
    assert refused(name).startswith(f"{name} is no file of this machine")


def test_a_trace_that_a_program_wrote_itself_is_found_by_its_name(ended, tmp_path):
    ended("log/trace.json", "data.json")
    timeline("ab12", output=tmp_path / "page.html")
    assert "log/trace.json of run ab12" in (tmp_path / "page.html").read_text()


def test_without_an_output_the_page_is_kept_and_named(
    home, profile, monkeypatch, capsys
):
    monkeypatch.setenv("CI", "1")
    named = profile.rename(profile.with_name("-x;touch $(y).nvprof"))

    timeline(str(named))

    (page,) = (home / "rai" / "pages").iterdir()
    assert f"open {page}." in capsys.readouterr().out
    assert "touch" not in page.name


def test_pages_are_private_and_old_ones_are_removed(home):
    at = Home(home / "rai")
    first = outputs.keep_page(at, "timeline", "<p>")
    assert first.read_text() == "<p>"
    assert first.parent.stat().st_mode & 0o077 == 0
    old = time.time() - outputs.KEPT_S - 60
    os.utime(first, (old, old))
    other = first.with_name("mine.txt")
    other.write_text("not a page")
    os.utime(other, (old, old))
    second = outputs.keep_page(at, "timeline", "<p>")
    assert sorted(first.parent.iterdir()) == sorted([other, second])
