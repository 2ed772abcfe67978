"""What of a project is sent, and that its archive is the same each time."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from runner import archive
from runner.archive.compressed import JOB_BYTES
from runner.archive.ignore import from_docker
from runner.core import Archive, Severity
from runner.core.errors import NotAllowedError, UsageError
from runner.core.events import Progress
from tests.runner.rights import permissions_that_count

LOOSE = archive.Caps(1 << 40, 1 << 20, 1 << 40)


def tree(root: Path, *names: str, **files: str) -> Path:
    """Make a folder of files; a name that ends with a slash is an empty folder."""
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"this is {name}\n")
    for name, text in files.items():
        (root / f".{name}").write_text(text)
    return root


def sent(project: Path) -> list[str]:
    """Name the files and links that would be sent."""
    members = archive.survey(project).members
    return [m.name for m in members if m.kind is not archive.MemberKind.FOLDER]


def left(project: Path) -> dict[str, str]:
    return {item.name: item.why for item in archive.survey(project).left_out}


def packed(
    project: Path, into: Path, caps: archive.Caps = LOOSE
) -> tuple[Archive, list[Progress]]:
    steps, seen = archive.pack(archive.survey(project), into, caps), []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as end:
            return end.value, seen


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with (
        archive.open_tar(path) as stream,
        tarfile.open(fileobj=stream, mode="r|", errors="surrogateescape") as tar,
    ):
        return {info.name: info for info in tar}


def test_the_same_content_gives_the_same_hash_whatever_its_times_modes_and_order(
    tmp_path,
):
    one = tree(tmp_path / "one", "a.txt", "src/b.c", "src/c.c", "empty/")
    two = tree(tmp_path / "two", "empty/", "src/c.c", "src/b.c", "a.txt")
    os.utime(two / "a.txt", (1, 1))
    (two / "a.txt").chmod(0o600)
    (two / "src").chmod(0o700)
    first, _ = packed(one, tmp_path / "1")
    second, _ = packed(two, tmp_path / "2")
    assert first.sha256 == second.sha256
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    (two / "a.txt").chmod(0o755)
    assert packed(two, tmp_path / "3")[0].sha256 != first.sha256


def test_the_archive_says_what_it_is(tmp_path):
    project = tree(tmp_path / "p", "a", "b/c")
    made, _ = packed(project, tmp_path / "p.tar.zst")
    with archive.open_tar(made.path) as stream:
        raw = stream.read()
    assert made.sha256 == hashlib.sha256(raw).hexdigest()
    assert made.raw_bytes == len(raw) and len(raw) % tarfile.RECORDSIZE == 0
    assert made.size_bytes == (tmp_path / "p.tar.zst").stat().st_size
    assert made.members == 3


def test_members_have_no_times_no_owners_and_two_modes(tmp_path):
    project = tree(tmp_path / "p", "plain", "tool", "folder/")
    (project / "tool").chmod(0o4711)
    (project / "link").symlink_to("../elsewhere/./x")
    found = members(packed(project, tmp_path / "a")[0].path)
    assert list(found) == ["folder", "link", "plain", "tool"]
    modes = {name: oct(info.mode) for name, info in found.items()}
    assert modes["folder"] == modes["tool"] == "0o755"
    assert modes["plain"] == "0o644"
    assert found["folder"].isdir() and found["tool"].isreg()
    assert found["link"].issym() and found["link"].linkname == "../elsewhere/./x"
    for info in found.values():
        assert (info.mtime, info.uid, info.gid, info.uname) == (0, 0, 0, "")


def test_a_file_larger_than_what_one_thread_takes_arrives_whole(tmp_path):
    project = tree(tmp_path / "p", "a")
    content = os.urandom(1 << 20) * 19 + b"end"
    assert len(content) > 2 * JOB_BYTES
    (project / "large").write_bytes(content)
    made, _ = packed(project, tmp_path / "a.tar.zst")
    archive.unpack(made.path, tmp_path / "back")
    assert (tmp_path / "back/large").read_bytes() == content


def test_an_empty_project_gives_an_archive_without_members(tmp_path):
    archive, seen = packed(tree(tmp_path / "p", "./"), tmp_path / "a")
    assert archive.members == 0 and members(archive.path) == {}
    assert seen[-1] == Progress("pack", 0, 0)


def test_names_that_are_not_utf8_arrive_byte_for_byte(tmp_path):
    project = tree(tmp_path / "p", "./")
    names = [
        b"caf\xe9.txt",
        "grün/文件".encode(),
        b"\xff" * 120,
        b"a\nb",
        b"back\\slash",
    ]
    for name in names:
        path = project / os.fsdecode(name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name)
    made, _ = packed(project, tmp_path / "a.tar.zst")
    archive.unpack(made.path, tmp_path / "back")
    for name in names:
        assert (tmp_path / "back" / os.fsdecode(name)).read_bytes() == name


def test_progress_ends_at_the_sum_of_the_sizes(tmp_path):
    project = tree(tmp_path / "p", "a")
    for n in range(3):
        (project / f"large{n}").write_bytes(bytes(9 << 20))
    total = archive.survey(project).total_bytes
    _, seen = packed(project, tmp_path / "a")
    assert [s.done for s in seen] == sorted(s.done for s in seen)
    assert len(seen) == 5 and seen[-1] == Progress("pack", total, total)


def test_sockets_and_pipes_are_left_out_with_the_reason(tmp_path, monkeypatch):
    project = tree(tmp_path / "p", "a")
    os.mkfifo(project / "pipe")
    monkeypatch.chdir(project)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    assert sent(project) == ["a"]
    assert left(project) == {
        "pipe": "a named pipe cannot be sent",
        "socket": "a socket cannot be sent",
    }


def test_version_control_and_virtual_environments_never_go(tmp_path):
    project = tree(
        tmp_path / "p", ".git/HEAD", "sub/.git", ".hg/x", "sub/.svn/x", "sub/keep"
    )
    tree(project, "env/pyvenv.cfg", "env/bin/python", raiignore="!*\n")
    assert sent(project) == [".raiignore", "sub/keep"]
    assert list(left(project)) == [".git/", ".hg/", "env/", "sub/.git", "sub/.svn/"]
    assert left(project)["env/"] == "a virtual environment stays here"


def test_the_first_of_raiignore_dockerignore_and_gitignore_is_the_one_that_counts(
    tmp_path,
):
    project = tree(tmp_path / "p", "a", "b", "c", gitignore="a\n")
    assert "a" not in sent(project) and "b" in sent(project)
    assert archive.survey(project).rules == ".gitignore"
    tree(project, dockerignore="b\n")
    assert "a" in sent(project) and "b" not in sent(project)
    tree(project, raiignore="c\n")
    assert [n for n in sent(project) if n in "abc"] == ["a", "b"]
    assert left(project) == {"c": ".raiignore:1: c"}


def test_without_rules_everything_else_goes(tmp_path):
    project = tree(tmp_path / "p", "__pycache__/x.pyc", "a")
    assert sent(project) == ["__pycache__/x.pyc", "a"]
    assert archive.survey(project).rules == ""


@pytest.mark.parametrize(
    ("rules", "stays"),
    [
        ("*.o\n", ["a.o", "src/b.o"]),
        ("/a.o\n", ["a.o"]),
        ("src/\n", ["src/"]),
        ("src\n", ["src/"]),
        ("src/*\n!src/b.c\n", ["src/b.o", "src/deep/"]),
        ("*\n!*/\n!*.c\n", [".raiignore", "a.o", "src/b.o"]),
        ("**/deep\n", ["src/deep/"]),
        ("src/**\n", ["src/"]),
        ("# src\n\n\\#x\n", []),
        ("src/\n!src/b.c\n", ["src/b.o", "src/deep/"]),
        ("!a.o\n*.o\n", ["a.o", "src/b.o"]),
    ],
)
def test_raiignore_is_written_like_a_gitignore(rules, stays, tmp_path):
    project = tree(tmp_path / "p", "a.o", "src/b.o", "src/b.c", "src/deep/d.c")
    tree(project, raiignore=rules)
    assert list(left(project)) == stays


@pytest.mark.parametrize(
    ("rules", "goes"),
    [
        ("*.o\n", ["a.c", "src/b.c", "src/b.o", "src/deep/d.c"]),
        ("**/*.o\n", ["a.c", "src/b.c", "src/deep/d.c"]),
        ("src\n", ["a.c", "a.o"]),
        ("/src/\n", ["a.c", "a.o"]),
        ("./src/../src\n", ["a.c", "a.o"]),
        ("*\n!src\n", ["src/b.c", "src/b.o", "src/deep/d.c"]),
        ("*\n!src/deep/d.c\n", ["src/deep/d.c"]),
        ("*\n!src\nsrc/deep\n", ["src/b.c", "src/b.o"]),
        ("src/?.c\n", ["a.c", "a.o", "src/b.o", "src/deep/d.c"]),
        ("src/*\n!src/b.c\n", ["a.c", "a.o", "src/b.c"]),
        ("*\n", []),
        (".\n", ["a.c", "a.o", "src/b.c", "src/b.o", "src/deep/d.c"]),
        ("# src\n  a.o  \n", ["a.c", "src/b.c", "src/b.o", "src/deep/d.c"]),
    ],
)
def test_dockerignore_is_read_as_docker_reads_it(rules, goes, tmp_path):
    project = tree(tmp_path / "p", "a.o", "a.c", "src/b.o", "src/b.c", "src/deep/d.c")
    tree(project, dockerignore=rules)
    assert [n for n in sent(project) if n != ".dockerignore"] == goes


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("*", "/*"),
        ("!Dockerfile", "!/Dockerfile"),
        ("! /a/b/", "!/a/b"),
        ("**/x", "/**/x"),
        ("#x", ""),
        (" ", ""),
        ("!", ""),
    ],
)
def test_a_line_of_a_dockerignore_becomes_a_rooted_rule(line, rule):
    assert from_docker(line) == rule


def test_gitignores_in_folders_count_for_their_folders_and_over_those_above(tmp_path):
    project = tree(tmp_path / "p", "x.log", "sub/x.log", "sub/keep.log", "sub/only")
    tree(project / "sub", gitignore="!keep.log\n/only\n")
    tree(project, gitignore="*.log\n")
    assert sent(project) == [".gitignore", "sub/.gitignore", "sub/keep.log"]
    assert left(project) == {
        "sub/only": "sub/.gitignore:2: /only",
        "sub/x.log": ".gitignore:1: *.log",
        "x.log": ".gitignore:1: *.log",
    }


def test_gitignores_in_folders_do_not_count_beside_a_raiignore(tmp_path):
    project = tree(tmp_path / "p", "sub/x", raiignore="")
    tree(project / "sub", gitignore="x\n")
    assert "sub/x" in sent(project)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_gitignore_is_read_as_git_reads_it(tmp_path):
    project = tree(
        tmp_path / "p",
        *("a.o", "a.c", "build/x", "build/keep", "src/a.o", "src/deep/a.c", "doc/a"),
        *("src/build/x", "out/a/b", "out/keep", "tmp/x", "tmp/y/z", "log/a", "log/b/c"),
    )
    tree(
        project,
        gitignore="*.o\n/build/*\n!/build/keep\nout/**\n!out/keep\ntmp\n"
        "doc/ \nlog/*\n!log/b/\n",
    )
    tree(project / "src", gitignore="build/\n!a.o\n")
    subprocess.run(["git", "init", "-q", project], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
    )
    assert sorted(sent(project)) == sorted(listed.stdout.splitlines())


def test_an_ignored_folder_is_not_even_looked_into(tmp_path, monkeypatch):
    project = tree(tmp_path / "p", "node_modules/a/b", "x", raiignore="node_modules/\n")
    looked: list[str] = []
    scan = os.scandir

    def noted(path):
        looked.append(Path(path).name)
        return scan(path)

    monkeypatch.setattr(os, "scandir", noted)
    archive.survey(project)
    assert looked == ["p"]


def test_a_line_that_is_no_pattern_is_a_warning_and_the_rest_counts(tmp_path):
    project = tree(tmp_path / "p", "a", "b", raiignore="!\na\n")
    survey = archive.survey(project)
    (problem,) = survey.problems
    assert problem.severity is Severity.WARNING
    assert str(problem).startswith(".raiignore:1:1: warning: '!' is not a pattern")
    assert "a" not in sent(project)
    assert packed(project, tmp_path / "x")[0].members == 2


def test_over_a_ceiling_the_five_largest_are_named_with_advice(tmp_path):
    project = tree(tmp_path / "p", "./", raiignore="*.log\n")
    for n in range(1, 8):
        (project / f"file{n}").write_bytes(bytes(n * 100_000))
    caps = archive.Caps(total_bytes=1_000_000, members=5, file_bytes=600_000)
    with pytest.raises(NotAllowedError) as caught:
        packed(project, tmp_path / "a", caps)
    assert str(caught.value).splitlines() == [
        "the project is 2.8 MB; at most 1.0 MB can be sent",
        "the project has 8 members; at most 5 can be sent",
        "1 file is larger than 0.6 MB",
        "the largest entries are 'file7', 0.7 MB; 'file6', 0.6 MB; 'file5', 0.5 MB; "
        "'file4', 0.4 MB; 'file3', 0.3 MB; add what is not needed to .raiignore",
    ]
    assert caught.value.reason.exit_code == 9
    assert {path.name for path in tmp_path.iterdir()} == {"p"}


def test_the_ceilings_of_an_upload_are_the_promised_ones():
    upload, build = archive.UPLOAD, archive.BUILD
    assert (upload.total_bytes, upload.members) == (500_000_000, 20_000)
    assert upload.file_bytes == 100_000_000
    assert (build.total_bytes, build.members) == (5 << 29, 100_000)


def test_files_that_vanish_or_change_meanwhile_are_all_named_and_nothing_is_left(
    tmp_path,
):
    project = tree(tmp_path / "p", "a", "gone", "grown", "link", "pipe", "dir")
    survey = archive.survey(project)
    (project / "grown").write_text("much longer than before, to be sure")
    for name in ("gone", "link", "pipe", "dir"):
        (project / name).unlink()
    (project / "link").symlink_to("/etc/passwd")
    os.mkfifo(project / "pipe")
    (project / "dir").mkdir()
    with pytest.raises(UsageError) as caught:
        list(archive.pack(survey, tmp_path / "a"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert "'gone' cannot be read: No such file or directory" in lines
    assert "'grown' changed while it was packed; try again" in lines
    assert "'pipe' cannot be read: it is not a regular file" in lines
    assert "'link' cannot be read: a link leads out of the folder" in lines
    assert {path.name for path in tmp_path.iterdir()} == {"p"}


def test_a_folder_that_became_a_link_leads_to_nothing_outside(tmp_path):
    project = tree(tmp_path / "p", "dir/file")
    tree(tmp_path / "elsewhere", "file")
    (tmp_path / "elsewhere/file").write_text("this is secret!!")
    survey = archive.survey(project)
    (project / "dir/file").unlink()
    (project / "dir").rmdir()
    (project / "dir").symlink_to("../elsewhere")
    (tmp_path / "elsewhere/file").write_bytes(b"x" * survey.total_bytes)

    with pytest.raises(UsageError, match="a link leads out of the folder"):
        list(archive.pack(survey, tmp_path / "a"))


@pytest.mark.parametrize("name", [".gitignore", ".raiignore", ".dockerignore"])
@pytest.mark.parametrize("kind", ["a link", "a large file"])
def test_rules_outside_of_the_project_or_without_end_are_not_read(kind, name, tmp_path):
    project = tree(tmp_path / "p", "file")
    (tmp_path / "rules").write_text("secret[\n")
    if kind == "a link":
        (project / name).symlink_to("../rules")
    else:
        (project / name).touch()
        os.truncate(project / name, 2 << 20)

    with pytest.raises(UsageError, match=f"{name} cannot be read") as caught:
        list(archive.pack(archive.survey(project), tmp_path / "a"))
    assert "secret" not in str(caught.value)


def test_an_inner_file_of_rules_may_be_a_link_inside_the_project(tmp_path):
    project = tree(tmp_path / "p", "dir/file.o", "rules")
    (project / "rules").write_text("*.o\n")
    (project / "dir/.gitignore").symlink_to("../rules")

    assert "dir/file.o" not in sent(project)
    assert "rules" in sent(project)


def test_folders_and_files_without_permission_are_all_named(tmp_path):
    project = tree(tmp_path / "p", "secret/x", "file")
    (project / "secret").chmod(0)
    (project / "file").chmod(0)
    with permissions_that_count(), pytest.raises(UsageError) as caught:
        packed(project, tmp_path / "a")
    (project / "secret").chmod(0o700)
    assert "'secret" in str(caught.value) and "'file'" in str(caught.value)


def test_folders_that_nest_without_end_are_refused(tmp_path):
    deep = tmp_path / "p"
    for _ in range(250):
        deep = deep / "d"
    deep.mkdir(parents=True)
    with pytest.raises(UsageError, match="too deep"):
        packed(tmp_path / "p", tmp_path / "a")


def test_a_packing_that_is_stopped_leaves_nothing_behind(tmp_path):
    project = tree(tmp_path / "p", "a")
    (project / "large").write_bytes(bytes(40 << 20))
    steps = archive.pack(archive.survey(project), tmp_path / "a", LOOSE)
    next(steps)
    steps.close()
    assert {path.name for path in tmp_path.iterdir()} == {"p"}


def test_an_archive_that_is_there_stays_until_the_new_one_is_whole(tmp_path):
    project = tree(tmp_path / "p", "a")
    (tmp_path / "x").write_text("old")
    steps = archive.pack(archive.survey(project), tmp_path / "x", LOOSE)
    next(steps)
    assert (tmp_path / "x").read_text() == "old"
    list(steps)
    assert list(members(tmp_path / "x")) == ["a"]
