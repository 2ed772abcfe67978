"""What a project's folder holds before its run."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from runner.core import Reason
from tests.hostile.case import FEW, Case, Ended, Site

TIB = 1 << 40
RUNS = ("true",)
OUT = "project"


def nothing_ran(ended: Ended) -> None:
    """Assert that the host ran nothing of the project."""
    assert [p.name for p in ended.site.outside.iterdir()] == ["secret"]


def _git(site: Site, *words: str) -> None:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words]
    subprocess.run(command, cwd=site.project, check=True, capture_output=True)


def _repository(site: Site) -> None:
    (site.project / "file").write_text("x")
    _git(site, "init", "-q")
    _git(site, "add", ".")
    _git(site, "commit", "-qm", "x")


def _hooks(site: Site) -> None:
    """Name programs of the host wherever a repository can."""
    _repository(site)
    touch = f"touch {site.outside}/ran"
    for key in (
        *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor"),
        *("filter.a=b.clean", "filter.a.process", "diff.external"),
        *("remote.origin.uploadpack", "core.gitProxy", "credential.helper"),
    ):
        _git(site, "config", key, touch)
    (site.project / ".gitattributes").write_text("* filter=a\n* filter=a=b\n")
    hook = site.project / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\n{touch}\n")
    hook.chmod(0o755)
    (site.project / "file").write_text("y")


def _partial_clone(site: Site) -> None:
    """Miss the tree of HEAD, which git would fetch by a program that it names."""
    _repository(site)
    done = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"],
        cwd=site.project,
        capture_output=True,
        text=True,
        check=True,
    )
    tree = done.stdout.strip()
    (site.project / ".git/objects" / tree[:2] / tree[2:]).unlink()
    touch = f"touch {site.outside}/ran;"
    _git(site, "config", "extensions.partialClone", "origin")
    _git(site, "config", "core.repositoryformatversion", "1")
    _git(site, "config", "remote.origin.url", f"{site.project}")
    _git(site, "config", "remote.origin.promisor", "true")
    _git(site, "config", "remote.origin.uploadpack", touch)


def _endless_git(site: Site) -> None:
    _repository(site)
    for name in ("HEAD", "index", "config", "packed-refs"):
        file = site.project / ".git" / name
        file.unlink(missing_ok=True)
        _sparse(file, TIB)


def _fifo_git(site: Site) -> None:
    _repository(site)
    for name in ("HEAD", "index"):
        file = site.project / ".git" / name
        file.unlink()
        os.mkfifo(file)


def _sparse(file: Path, size: int) -> None:
    with file.open("wb") as out:
        out.truncate(size)


def _replaced(name: str, size: int = 8 << 30) -> object:
    """Return a function that makes a file of the project a large sparse one."""
    return lambda site: _sparse(site.project / name, size)


def _fifo(name: str) -> object:
    def make(site: Site) -> None:
        (site.project / name).unlink(missing_ok=True)
        os.mkfifo(site.project / name)

    return make


def _link(name: str, to: str) -> object:
    def make(site: Site) -> None:
        path = site.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(site.filled(to))

    return make


def _socket_file(site: Site) -> None:
    here = Path.cwd()
    os.chdir(site.project)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
    finally:
        os.chdir(here)


def _links(site: Site) -> None:
    folder = site.project / "links"
    folder.mkdir()
    for n in range(2000):
        (folder / f"l{n}").symlink_to(
            "/etc/passwd" if n % 2 else "../../outside/secret"
        )
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")


def _odd_names(site: Site) -> None:
    folder = os.fsencode(site.project)
    for name in (
        *(b"-rf", b"--checkpoint-action=exec=sh", b"new\nline", b"tab\t", b"\xff\xfe"),
        *(b"$(touch x)", b"`id`", b"a\\b", b"\x1b[31m", "e\u0301".encode(), b"a" * 255),
    ):
        Path(os.fsdecode(folder + b"/" + name)).write_text("x")


def _deep(site: Site) -> None:
    here = Path.cwd()
    os.chdir(site.project)
    try:
        for _ in range(1500):
            Path("d" * 8).mkdir()
            os.chdir("d" * 8)
    finally:
        os.chdir(here)


def _many(site: Site) -> None:
    for n in range(21_000):
        (site.project / f"f{n}").touch()


STARS = "\n".join(f"{'*a' * 30}{n}b" for n in range(50)) + "\n"
ALIASES = "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'] * 9)}]\n"
    for n in range(9)
)


def _has_no_secret(
    name: str, tries: str, to: str, ends: object, **more: object
) -> Case:
    return Case(
        name=name,
        tries=tries,
        commands=("cat $RAI_SOURCE_DIR/key $RAI_SOURCE_DIR/folder/secret; true",),
        make=_link(
            "key" if "folder" not in to else "folder", to.removeprefix("folder:")
        ),
        ends=ends,
        **more,
    )


CASES = (
    Case(
        name="git programs",
        tries="Its .git names programs in hooks, filters, fsmonitor, transports.",
        commands=RUNS,
        make=_hooks,
        ends=Reason.DONE,
        check=nothing_ran,
        ci=FEW,
    ),
    Case(
        name="partial clone",
        tries="Its .git is a partial clone that fetches by a program of its own.",
        commands=RUNS,
        make=_partial_clone,
        ends=Reason.DONE,
        check=nothing_ran,
        ci=FEW,
    ),
    Case(
        name="endless .git",
        tries="HEAD, index, config and packed-refs in its .git have 1 TiB.",
        commands=RUNS,
        make=_endless_git,
        ends=Reason.DONE,
    ),
    Case(
        name="FIFOs in .git",
        tries="HEAD and index in its .git are FIFOs.",
        commands=RUNS,
        make=_fifo_git,
        ends=Reason.DONE,
    ),
    _has_no_secret(
        "a link out",
        "A link of its leads to a file of the host.",
        "@OUTSIDE@/secret",
        Reason.DONE,
        ci=FEW,
    ),
    _has_no_secret(
        "a linked folder out",
        "A link of its leads to a folder of the host.",
        "folder:@OUTSIDE@",
        Reason.DONE,
    ),
    Case(
        name="data link",
        tries="A data file of its own is a link to a file of the host.",
        spec=(
            "rai: {version: 0.2, image: debian:bookworm-slim}\n"
            "resources:\n  limits: {time: 10}\n  dataresources:\n"
            "    - {mount: /data/x, source: {url: http://rai.invalid/key}}\n"
            "commands:\n  build:\n    - cat /data/x/key || true\n"
        ),
        make=_link("data/key", "@OUTSIDE@/secret"),
        ends=Reason.DONE,
        ci=FEW,
    ),
    Case(
        name="many links",
        tries="2,000 links lead out of it, in a loop, and up.",
        commands=("cat $RAI_SOURCE_DIR/links/* 2>/dev/null; true",),
        make=_links,
        ends=Reason.DONE,
    ),
    Case(
        name="odd names",
        tries="Its files are named like options, with newlines, escapes, no UTF-8.",
        commands=("ls -R $RAI_SOURCE_DIR",),
        make=_odd_names,
        ends=Reason.DONE,
    ),
    Case(
        name="deep folders",
        tries="Its folders lie 1,500 deep.",
        commands=RUNS,
        make=_deep,
        ends=Reason.USAGE,
    ),
    Case(
        name="many files",
        tries="It has 21,000 files.",
        commands=RUNS,
        make=_many,
        ends=Reason.NOT_ALLOWED,
    ),
    Case(
        name="a sparse file",
        tries="It has a sparse file of 8 GiB.",
        commands=RUNS,
        make=_replaced("big"),
        ends=Reason.NOT_ALLOWED,
    ),
    Case(
        name="a FIFO",
        tries="It has a FIFO.",
        commands=RUNS,
        make=_fifo("pipe"),
        ends=Reason.DONE,
    ),
    Case(
        name="a socket",
        tries="It has a socket.",
        commands=RUNS,
        make=_socket_file,
        ends=Reason.DONE,
    ),
    Case(
        name="sparse build file",
        tries="Its build file has 8 GiB.",
        make=_replaced("rai_build.yml"),
        ends=Reason.BAD_SPEC,
        ci=FEW,
    ),
    Case(
        name="FIFO build file",
        tries="Its build file is a FIFO.",
        make=_fifo("rai_build.yml"),
        ends=Reason.BAD_SPEC,
    ),
    Case(
        name="endless build file",
        tries="Its build file is a link to /dev/zero.",
        make=_link("rai_build.yml", "/dev/zero"),
        ends=Reason.BAD_SPEC,
    ),
    Case(
        name="YAML bomb",
        tries="Aliases of its build file grow without end.",
        spec=f"{ALIASES}commands: {{build: [*a8]}}\n",
        ends=Reason.BAD_SPEC,
    ),
    Case(
        name="deep YAML",
        tries="Its build file nests 50,000 lists.",
        spec="commands: " + "[" * 50_000 + "\n",
        ends=Reason.BAD_SPEC,
    ),
    Case(
        name="slow ignore file",
        tries="Its ignore files have patterns that take exponential time.",
        commands=RUNS,
        files={".raiignore": STARS, ".gitignore": STARS, "a" * 120 + "c": "x"},
        ends=Reason.DONE,
        ci=FEW,
    ),
    Case(
        name="sparse ignore file",
        tries="Its ignore file has 8 GiB.",
        commands=RUNS,
        make=_replaced(".raiignore"),
        ends=Reason.NOT_ALLOWED,
    ),
    Case(
        name="option injection",
        tries="Its image and paths begin with a hyphen.",
        spec=(
            "rai: {version: 0.2, image: '--privileged'}\ncommands: {build: ['true']}\n"
        ),
        ends={"": Reason.DONE, "docker": Reason.IMAGE_NOT_FOUND},
    ),
    Case(
        name="long command",
        tries="A command has 200 KB.",
        spec=(
            "rai: {version: 0.2, image: debian:bookworm-slim}\n"
            f"commands: {{build: ['true {'x' * 200_000}']}}\n"
        ),
        ends={"": Reason.BAD_SPEC},
    ),
    Case(
        name="endless regular expression",
        tries="What it expects is an expression that takes exponential time.",
        spec=(
            "rai: {version: 0.2, image: debian:bookworm-slim}\n"
            "resources: {limits: {time: 10}}\n"
            "commands:\n  build:\n"
            "    - run: perl -e 'print \"a\" x 30000'\n"
            "      expect: {output: '/(a*)*(a*)*b/'}\n"
        ),
        ends=Reason.WRONG_ANSWER,
    ),
)
