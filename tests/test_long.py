"""Which long suites of tests are due, as tools/long.py says."""

import subprocess
from pathlib import Path

import pytest

from tests.test_architecture import imports
from tools import long
from tools.long import EVERY, ROOT, SUITES, main

SHARED = EVERY.split()
SOURCES = (ROOT, ROOT / "project", ROOT / "image" / "nvprof")


@pytest.fixture
def tree(tmp_path):
    """Make a repository with a file at or below each path that a suite names."""
    (tmp_path / "tests").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in {name for each in SUITES for name in named(each)}:
        path = tmp_path / name
        path = path if path.suffix else path / "deep" / "file"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    main("record", SUITES, tmp_path)
    return tmp_path


def named(suite):
    return [suite, *SHARED, *SUITES[suite].split()]


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_named_is_there(suite):
    assert [name for name in named(suite) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_is_due_after_a_change_of_any_source_and_not_after_another(
    suite, tree, capsys
):
    assert main("check", [suite], tree) == 0
    (tree / "another").write_text("file")
    assert main("check", [suite], tree) == 0

    for name in named(suite):
        path = tree / name
        files = (
            [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        )
        for file in files:
            file.write_text("befora")
            assert main("check", [suite], tree) == 1, file
            assert said(capsys)[-1].startswith(f"{suite}=")
            file.write_text("before")
            file.chmod(file.stat().st_mode | 0o100)
            assert main("check", [suite], tree) == 1, file
            file.chmod(file.stat().st_mode & ~0o100)
        file.unlink()
        assert main("check", [suite], tree) == 1, file
        file.write_text("before")
    assert main("check", [suite], tree) == 0


def test_a_new_file_counts_before_git_tracks_it_and_one_that_git_ignores_never(tree):
    (tree / ".gitignore").write_text("*.pyc\n")
    (tree / "tests/fuzz/a.pyc").write_text("1")
    assert main("check", ["tests/fuzz"], tree) == 0
    (tree / "tests/fuzz/a.py").write_text("1")
    assert main("check", ["tests/fuzz"], tree) == 1

    main("record", ["tests/fuzz"], tree)
    assert main("check", ["tests/fuzz"], tree) == 0
    assert main("check", ["tests/exploits"], tree) == 0


def test_a_suite_that_never_passed_is_due(tree, capsys):
    (tree / long.KEPT).unlink()
    assert main("check", SUITES, tree) == 1
    assert [word.partition("=")[0] for word in said(capsys)] == list(SUITES)


def test_what_was_checked_is_recorded_whatever_was_changed_meanwhile(tree, capsys):
    source = tree / "tests/fuzz/deep/file"
    source.write_text("checked")
    main("check", SUITES, tree)
    checked = said(capsys)
    assert len(checked) == 1
    source.write_text("changed")

    main("record", checked, tree)

    assert main("check", SUITES, tree) == 1
    source.write_text("checked")
    assert main("check", SUITES, tree) == 0


def said(capsys):
    return capsys.readouterr().out.split()


@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_depends_on_all_that_its_tests_import(suite):
    """Those of a GPU are not run with it, and programs that it starts are not seen."""
    places = [ROOT / name for name in named(suite)]
    waiting = [
        p for p in (ROOT / suite).rglob("*.py") if not p.name.startswith("test_gpu")
    ]
    seen = set(waiting)
    while waiting:
        for name in imports(waiting.pop()):
            path = module(name)
            if path is None or path in seen:
                continue
            assert any(path.is_relative_to(place) for place in places), (
                f"{name}: {path}"
            )
            seen.add(path)
            shared = str(path.relative_to(ROOT)) in SHARED
            if "tests" in path.relative_to(ROOT).parts and not shared:
                waiting.append(path)


def module(name: str) -> Path | None:
    """Return the file of ours that a dotted name is of, if any."""
    parts = name.split(".")
    tried = [
        base.joinpath(*parts[:n])
        for n in (len(parts), len(parts) - 1)
        for base in SOURCES
    ]
    files = (
        file
        for path in tried
        for file in (path.with_suffix(".py"), path / "__init__.py")
    )
    return next((file for file in files if file.is_file()), None)


def test_a_test_is_in_a_suite_by_where_it_lies():
    assert long.suite_of(ROOT / "project/tests/test_plan.py") == "project/tests"
    assert long.suite_of(ROOT / "tests/hostile/cases/disk.py") == "tests/hostile"
    assert long.suite_of(ROOT / "tests/test_long.py") is None
