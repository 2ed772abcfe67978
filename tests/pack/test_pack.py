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

from runner import pack
from runner.core import Archive, Severity
from runner.core.errors import NotAllowedError, UsageError
from runner.core.events import Progress, Warned
from runner.pack import contents
from runner.pack.write import JOB_BYTES
from runner.store.settings import SETTINGS
from tests.kit.rights import permissions_that_count

LOOSE = pack.Caps(1 << 40, 1 << 20, 1 << 40)


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
    members = pack.survey(project).members
    return [m.name for m in members if m.kind is not pack.MemberKind.FOLDER]


def left(project: Path) -> dict[str, str]:
    return {item.name: item.why for item in pack.survey(project).left_out}


def packed(
    project: Path, into: Path, caps: pack.Caps = LOOSE
) -> tuple[Archive, list[Progress]]:
    steps, seen = pack.pack(pack.survey(project), into, caps), []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as end:
            return end.value, seen


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with (
        pack.open_tar(path) as stream,
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
    with pack.open_tar(made.path) as stream:
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
    pack.unpack(made.path, tmp_path / "back")
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
    pack.unpack(made.path, tmp_path / "back")
    for name in names:
        assert (tmp_path / "back" / os.fsdecode(name)).read_bytes() == name


def test_progress_ends_at_the_sum_of_the_sizes(tmp_path):
    project = tree(tmp_path / "p", "a")
    for n in range(3):
        (project / f"large{n}").write_bytes(bytes(9 << 20))
    total = pack.survey(project).total_bytes
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
        "pipe": "built in: a named pipe",
        "socket": "built in: a socket",
    }


def test_version_control_and_virtual_environments_never_go(tmp_path):
    project = tree(
        tmp_path / "p", ".git/HEAD", "sub/.git", ".hg/x", "sub/.svn/x", "sub/keep"
    )
    tree(project, "env/pyvenv.cfg", "env/bin/python", raiignore="!*\n")
    assert sent(project) == [".raiignore", "sub/keep"]
    assert list(left(project)) == [".git/", ".hg/", "env/", "sub/.git", "sub/.svn/"]
    assert left(project)["env/"] == "built in: a virtual environment"
    assert left(project)["sub/.svn/"] == "built in: version control"


def test_gitignore_and_raiignore_add_up_and_raiignore_is_the_last_word(tmp_path):
    project = tree(tmp_path / "p", "a", "b", "c", "d", gitignore="a\nb\n")
    tree(project, raiignore="c\n!b\n", dockerignore="d\n")
    assert [n for n in sent(project) if n in "abcd"] == ["b", "d"]
    assert left(project) == {"a": ".gitignore:1: a", "c": ".raiignore:1: c"}
    assert pack.survey(project).rules == (".raiignore", ".gitignore")


@pytest.mark.parametrize(
    ("exception", "back"),
    [
        ("!/build/keep", ["build/keep"]),
        ("!/build/", ["build/keep", "build/x"]),
        ("!build", ["build/keep", "build/x"]),
        ("!build/*.o\n!build/k*", ["build/keep"]),
        ("!**/keep", ["build/keep"]),
        # Without a path it would bring back what nobody thought of.
        ("!keep", []),
        ("!*", []),
    ],
)
def test_raiignore_brings_back_what_is_in_a_folder_of_gitignore(
    exception, back, tmp_path
):
    project = tree(tmp_path / "p", "build/keep", "build/x", gitignore="build/*\n")
    tree(project, gitignore="/build/\n", raiignore=f"{exception}\n")
    assert [n for n in sent(project) if n[0] == "b"] == (
        ["build/keep", "build/x"] if exception == "!*" else back
    )


def test_without_rules_everything_else_goes(tmp_path):
    project = tree(tmp_path / "p", "__pycache__/x.pyc", "a")
    assert sent(project) == ["__pycache__/x.pyc", "a"]
    assert pack.survey(project).rules == ()


@pytest.mark.parametrize(
    ("rules", "stays"),
    [
        ("*.o\n", ["a.o", "src/b.o"]),
        ("/a.o\n", ["a.o"]),
        ("src/\n", ["src/"]),
        ("src/*\n!src/b.c\n", ["src/b.o", "src/deep/"]),
        ("*\n!*/\n!*.c\n", [".raiignore", "a.o", "src/b.o"]),
        ("**/deep\n", ["src/deep/"]),
        ("src/**\n", ["src/"]),
        ("# src\n\n\\#x\n", []),
        ("src/\n!src/b.c\n", ["src/b.o", "src/deep/"]),
        ("!a.o\n*.o\n", ["a.o", "src/b.o"]),
        ("src[!a]b.?\n", []),
        ("src[+-9]b.?\nsrc[^]]b.?\n", []),
        ("[!]r-t]rc/[+-b].[^o]\n", []),
        ("[]r-t]rc/[+-b].[^o]\n", ["src/b.c"]),
        ("src/**/ \n", ["src/deep/"]),
        ("a.o\t\n", []),
        ("a.o  \r\n", ["a.o"]),
        ("a.o \t\n", []),
    ],
)
def test_raiignore_is_written_like_a_gitignore(rules, stays, tmp_path):
    project = tree(tmp_path / "p", "a.o", "src/b.o", "src/b.c", "src/deep/d.c")
    tree(project, raiignore=rules)
    assert list(left(project)) == stays


def test_blanks_after_an_escaped_backslash_are_not_part_of_a_rule(tmp_path):
    project = tree(tmp_path / "p", "\\", "\\ ", raiignore="\\\\  \n")
    assert list(left(project)) == ["\\"]


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


def test_gitignores_in_folders_count_beside_a_raiignore_which_overrides_them(tmp_path):
    project = tree(tmp_path / "p", "sub/x", "sub/y", raiignore="!/sub/y\n")
    tree(project / "sub", gitignore="x\ny\n")
    assert sent(project) == [".raiignore", "sub/.gitignore", "sub/y"]
    assert pack.survey(project).rules == (".raiignore", "sub/.gitignore")


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_exceptions_of_a_gitignore_are_read_as_git_reads_them(tmp_path):
    rules = [
        ("d/\n!/a\n", ""),
        ("*.o\nd/a/\n", "!/d/\n"),
        ("a\n?\nd/**/b.o\n!a/\n", "!a/\n!b.o\na/**\n"),
        ("?\n*.o\na/**\n!/d/\n", ""),
        ("a/d\n!**/a\n", "!c.txt\n\\!a\n!*.txt\n"),
        ("!*/\na \na\n!*/\n", ""),
        ("/a/\n!*/\n", "!**/a\n!d/b.o\na \n"),
        ("*\n!*/\n!*.txt\n", "!b.o\n"),
        ("**/a/**\n!**/b.o\n", ""),
        ("/a/*\n!/a/x\nd/**\n!d/x\nc.txt \n", "d/\n!b.o\n"),
        ("a/*\n!a/d/\n", ""),
    ]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for number, (outer, inner) in enumerate(rules):
        folders = ("", "a/", "d/", "a/d/", "d/a/")
        names = [f"{folder}{n}" for folder in folders for n in ("b.o", "c.txt", "x")]
        project = tree(tmp_path / str(number), *names)
        tree(project, gitignore=outer)
        tree(project / "a", gitignore=inner)
    words = ["git", "ls-files", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=tmp_path, check=True, stdout=subprocess.PIPE)

    found = [
        f"{n}/{name}" for n in range(len(rules)) for name in sent(tmp_path / str(n))
    ]

    assert sorted(found) == sorted(listed.stdout.decode().splitlines())


def test_an_ignored_folder_is_not_even_looked_into(tmp_path, monkeypatch):
    rules = "node_modules/\n!/other/*.o\n"
    project = tree(tmp_path / "p", "node_modules/a/b", "x", raiignore=rules)
    looked: list[str] = []
    scan = os.scandir

    def noted(path):
        looked.append(Path(path).name)
        return scan(path)

    monkeypatch.setattr(os, "scandir", noted)
    pack.survey(project)
    assert looked == ["p"]


def test_rules_and_names_are_compared_byte_by_byte(tmp_path):
    project = tree(tmp_path / "p", "./")
    names = [b"caf\xe9.o", "grün.o".encode(), "où".encode(), b"a\nb.o", b"\xff", b"x"]
    for name in names:
        (project / os.fsdecode(name)).touch()
    rules = b"\xef\xbb\xbf*.o\r\n" + "où\r\n".encode() + b"\xff\n"
    (project / ".gitignore").write_bytes(rules)
    assert sent(project) == [".gitignore", "x"]
    reasons = left(project)
    assert reasons["grün.o"] == reasons["a\nb.o"] == ".gitignore:1: *.o"
    assert reasons["où"] == ".gitignore:2: où"


@pytest.mark.parametrize(
    "line", ["[z-a]", "[[:alpha:]]*.o", "a\\", "a[\\]]", "!", "!/"]
)
def test_a_line_that_cannot_be_searched_for_is_a_warning(line, tmp_path, recwarn):
    project = tree(tmp_path / "p", "a", "b", gitignore=f"{line}\nb\n")
    assert sent(project) == [".gitignore", "a"]
    (problem,) = pack.survey(project).problems
    said = f".gitignore:1:1: warning: {line!r} is not a pattern and is ignored"
    assert str(problem).startswith(said)
    assert not recwarn.list


def test_a_rule_with_many_wildcards_is_searched_for_in_linear_time(tmp_path):
    rules = "a*\n!a*\n" + "*a" * 40 + "*b\n"  # the last is tried alone, too
    project = tree(tmp_path / "p", "a" * 200, gitignore=rules)
    assert sent(project) == [".gitignore", "a" * 200]


def test_a_thousand_rules_are_read(tmp_path):
    rules = "".join(f"*.x{number}\n" for number in range(1000))
    project = tree(tmp_path / "p", "a.x999", "b", gitignore=rules)
    assert sent(project) == [".gitignore", "b"]


def test_too_many_rules_are_refused_and_send_nothing(tmp_path):
    rules = "".join(f"a*{number}*b*\n" for number in range(2000))
    project = tree(tmp_path / "p", "a", gitignore=rules)
    (problem,) = pack.survey(project).problems
    assert ".gitignore has too many rules" in str(problem)
    assert problem.severity is Severity.ERROR


def test_over_a_ceiling_the_largest_are_named_with_a_rule_and_a_setting(tmp_path):
    project = tree(tmp_path / "p", "./", raiignore="*.log\n")
    for n in range(1, 8):
        (project / f"file{n}").write_bytes(bytes(n << 20))
    (project / "data[1]" / "deep").mkdir(parents=True)
    (project / "data[1]" / "deep" / "large").write_bytes(bytes(9 << 20))
    caps = pack.Caps(total_bytes=10 << 20, members=5, file_bytes=6 << 20)
    with pytest.raises(NotAllowedError) as caught:
        packed(project, tmp_path / "a", caps)
    assert str(caught.value).splitlines() == [
        "the project is 37.0 MiB; at most 10.0 MiB can be sent: "
        "'data[1]/deep/large' 9.0 MiB, 'file7' 7.0 MiB, 'file6' 6.0 MiB, "
        "'file5' 5.0 MiB, 'file4' 4.0 MiB; "
        "a line `/data\\[1]/deep/large` in .raiignore leaves the first out;"
        " or set RAI_PROJECT_SIZE=64MiB",
        "the project has 11 files and folders; at most 5 can be sent: "
        "'data[1]/' 3, '.raiignore' 1, 'file1' 1, 'file2' 1, 'file3' 1; "
        "a line `/data\\[1]/` in .raiignore leaves the first out",
        "2 files are larger than 6.0 MiB: "
        "'data[1]/deep/large' 9.0 MiB, 'file7' 7.0 MiB; "
        "a line `/data\\[1]/deep/large` in .raiignore leaves the first out;"
        " or set RAI_PROJECT_FILE_SIZE=16MiB",
    ]
    assert caught.value.reason.exit_code == 9
    assert {path.name for path in tmp_path.iterdir()} == {"p"}
    (project / ".raiignore").write_text("/data\\[1]/deep/large\n")
    assert "data[1]/deep/large" not in sent(project)


def test_a_message_names_the_settings_that_there_are():
    known = {setting.variable for setting in SETTINGS}
    assert {"RAI_PROJECT_SIZE", "RAI_PROJECT_FILE_SIZE"} <= known


def test_a_tree_without_end_is_not_walked_to_its_end(tmp_path):
    project = tree(tmp_path / "p", *(f"{n:03}/file" for n in range(100)))
    caps = pack.Caps(total_bytes=1 << 30, members=10, file_bytes=1 << 30)
    found = pack.survey(project, caps=caps)
    assert found.cut and len(found.members) <= 52
    with pytest.raises(NotAllowedError, match="the project has more than 51 files"):
        list(pack.pack(found, tmp_path / "a", caps))


def test_the_list_of_what_is_left_out_is_bounded_and_secrets_are_in_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(contents, "LEFT_OUT_KEPT", 3)
    project = tree(tmp_path / "p", *(f"{n}.o" for n in range(9)), "x/.env", "y.o")
    tree(project, gitignore="*.o\n")
    found = pack.survey(project)
    assert [item.name for item in found.left_out] == ["0.o", "1.o", "2.o", "x/.env"]
    assert found.left_out_count == 11


SECRETS = [
    *(".env", ".env.local", ".ENV", "deep/.env", ".envrc", "id_rsa", "id_ed25519"),
    *("server.pem", "server.KEY", ".netrc", ".npmrc", ".pypirc", ".git-credentials"),
    *(".rai_profile", ".docker/config.json", "kaggle.json", ".pgpass"),
]
NO_SECRETS = [
    *(".env.example", ".env.sample", "id_rsa.pub", "environment", "env", "key.c"),
    *("monkey", "pem", "config.json", ".docker/Dockerfile", ".npmignore"),
]


def test_secrets_are_left_out_by_their_names_and_said(tmp_path):
    project = tree(tmp_path / "p", *SECRETS, *NO_SECRETS, ".ssh/config", ".aws/x/y")
    assert sent(project) == sorted(NO_SECRETS)
    reasons = left(project)
    assert set(reasons) == {*SECRETS, ".ssh/", ".aws/"}
    assert reasons["deep/.env"] == "a secret by its name: .env"
    assert reasons["server.KEY"] == "a secret by its name: *.key"
    assert reasons[".ssh/"] == "a secret by its name: .ssh/"
    assert {item.by for item in pack.survey(project).left_out} == {pack.LeftBy.SECRET}
    (warning,) = pack.survey(project).warnings
    assert str(warning) == (
        "warning: left out because they look like secrets: .ENV, .aws/,"
        " .docker/config.json, .env, .env.local and 14 more;"
        " to send one, write `!.ENV` in .raiignore"
    )


@pytest.mark.parametrize(
    ("rules", "goes"),
    [
        ("!.env\n", [".env", "sub/.env"]),
        ("!/.env\n", [".env"]),
        ("!/.aws/config\n", [".aws/config"]),
        ("!.aws/\n", [".aws/config", ".aws/credentials"]),
        ("!*.pem\n", ["ca.pem"]),
        ("*\n!.raiignore\n!ca.pem\n", ["ca.pem"]),
        # Wildcards alone do not ask for a secret.
        ("!*\n", []),
        ("!**/*\n", []),
        ("*\n!*/\n!.*\n", []),
        ("!.env\n.env\n", []),
    ],
)
def test_a_line_of_raiignore_that_names_a_secret_sends_it(rules, goes, tmp_path):
    project = tree(tmp_path / "p", ".env", "sub/.env", "ca.pem", ".aws/config")
    tree(project, ".aws/credentials", raiignore=rules)
    assert [n for n in sent(project) if n != ".raiignore"] == goes


def test_gitignore_does_not_bring_back_a_secret(tmp_path):
    project = tree(tmp_path / "p", ".env", gitignore="!.env\n")
    assert sent(project) == [".gitignore"]


def test_the_packing_of_a_project_warns_of_secrets(tmp_path):
    project = pack.FolderProject(tree(tmp_path / "p", "a", "id_rsa"))
    told = [e.text for e in project.pack(tmp_path / "x") if isinstance(e, Warned)]
    assert told == [
        "left out because they look like secrets: id_rsa;"
        " to send one, write `!id_rsa` in .raiignore"
    ]
    assert list(members(tmp_path / "x")) == ["a"]


def test_folders_that_rai_made_are_left_out_unless_raiignore_names_them(tmp_path):
    project = tree(tmp_path / "p", "results/out.txt", "results/deep/x", "sub/results/y")
    found = pack.survey(project, "results")
    assert [item.name for item in found.left_out] == ["results/"]
    assert found.left_out[0].why == "built in: rai's own home folder"
    assert [m.name for m in found.members] == ["sub", "sub/results", "sub/results/y"]
    tree(project, raiignore="!/results/out.txt\n")
    names = [m.name for m in pack.survey(project, "results").members]
    assert "results/out.txt" in names and "results/deep/x" not in names


def test_files_that_vanish_or_change_meanwhile_are_all_named_and_nothing_is_left(
    tmp_path,
):
    project = tree(tmp_path / "p", "a", "gone", "grown", "link", "pipe", "dir")
    survey = pack.survey(project)
    (project / "grown").write_text("much longer than before, to be sure")
    for name in ("gone", "link", "pipe", "dir"):
        (project / name).unlink()
    (project / "link").symlink_to("/etc/passwd")
    os.mkfifo(project / "pipe")
    (project / "dir").mkdir()
    with pytest.raises(UsageError) as caught:
        list(pack.pack(survey, tmp_path / "a"))
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert "cannot read gone: no such file or directory" in lines
    assert "'grown' changed while it was packed; try again" in lines
    assert "cannot read pipe: it is not a regular file" in lines
    assert "cannot read link: a link leads out of the folder" in lines
    assert {path.name for path in tmp_path.iterdir()} == {"p"}


def test_a_folder_that_became_a_link_leads_to_nothing_outside(tmp_path):
    project = tree(tmp_path / "p", "dir/file")
    tree(tmp_path / "elsewhere", "file")
    (tmp_path / "elsewhere/file").write_text("this is secret!!")
    survey = pack.survey(project)
    (project / "dir/file").unlink()
    (project / "dir").rmdir()
    (project / "dir").symlink_to("../elsewhere")
    (tmp_path / "elsewhere/file").write_bytes(b"x" * survey.total_bytes)

    with pytest.raises(UsageError, match="a link leads out of the folder"):
        list(pack.pack(survey, tmp_path / "a"))


@pytest.mark.parametrize("name", [".gitignore", ".raiignore"])
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
        list(pack.pack(pack.survey(project), tmp_path / "a"))
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
    assert "read secret" in str(caught.value) and "read file" in str(caught.value)


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
    steps = pack.pack(pack.survey(project), tmp_path / "a", LOOSE)
    next(steps)
    steps.close()
    assert {path.name for path in tmp_path.iterdir()} == {"p"}


def test_an_archive_that_is_there_stays_until_the_new_one_is_whole(tmp_path):
    project = tree(tmp_path / "p", "a")
    (tmp_path / "x").write_text("old")
    steps = pack.pack(pack.survey(project), tmp_path / "x", LOOSE)
    next(steps)
    assert (tmp_path / "x").read_text() == "old"
    list(steps)
    assert list(members(tmp_path / "x")) == ["a"]


def test_links_that_lead_out_of_the_project_are_named_once(tmp_path):
    project = tree(tmp_path / "p", "file")
    for name, target in {"a": "/etc/passwd", "b": "../x", "in": "file"}.items():
        (project / name).symlink_to(target)

    (warning,) = pack.survey(project).warnings

    assert warning.message == "these links lead out of the project: a, b"
