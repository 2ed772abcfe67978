"""What a project's folder holds before its run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from runner.core import Reason
from tests.hostile.case import FEW, Case, Ended, Site
from tests.kit import odd_files


def _says_that_it_is_large(ended: Ended) -> None:
    assert b"larger than" in ended.stderr


def _replaced(name: str, size: int = 8 << 30) -> object:
    """Return a function that makes a file of the project a large sparse one."""
    return lambda site: odd_files.sparse(site.project / name, size)


def _link(name: str, to: str) -> object:
    def make(site: Site) -> None:
        path = site.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(site.filled(to))

    return make


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
    odd_files.deep(site.project, 1500)


ALIASES = "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'] * 9)}]\n"
    for n in range(9)
)


def _holds(
    name: str, tries: str, make: Callable[[Site], object], **more: object
) -> Case:
    return Case(name=name, tries=tries, make=make, **more)


CASES = (
    _holds(
        "a link out",
        "A link of its leads to a file of the host.",
        _link("key", "@OUTSIDE@/secret"),
        commands=("cat $RAI_SOURCE_DIR/key; true",),
        ci=FEW,
    ),
    _holds(
        "data link",
        "A data file of its own is a link to a file of the host.",
        _link("data/key", "@OUTSIDE@/secret"),
        spec="rai: {version: 0.2, image: debian:bookworm-slim}\n"
        "resources:\n  limits: {time: 10}\n  dataresources:\n"
        "    - {mount: /data/x, source: {url: http://rai.invalid/key}}\n"
        "commands:\n  build:\n    - cat /data/x/key || true\n",
        ci=FEW,
    ),
    _holds(
        "many links",
        "2,000 links lead out of it, in a loop, and up.",
        _links,
        commands=("cat $RAI_SOURCE_DIR/links/* 2>/dev/null; true",),
    ),
    _holds(
        "odd names",
        "Its files are named like options, with newlines, escapes, no UTF-8.",
        _odd_names,
        commands=("ls -R $RAI_SOURCE_DIR",),
    ),
    _holds("deep folders", "Its folders lie 1,500 deep.", _deep, ends=Reason.USAGE),
    _holds(
        "sparse build file",
        "Its build file has 8 GiB.",
        _replaced("rai_build.yml"),
        ends=Reason.BAD_SPEC,
        check=_says_that_it_is_large,
        ci=FEW,
    ),
    Case(
        name="YAML bomb",
        tries="Aliases of its build file grow without end.",
        spec=f"{ALIASES}commands: {{build: [*a8]}}\n",
        ends=Reason.BAD_SPEC,
    ),
    _holds(
        "huge Dockerfile",
        "Its Dockerfile has 8 GiB.",
        _replaced("Dockerfile"),
        spec="rai: {version: 0.2}\ncommands: {build: ['true']}\n",
        ends={"": Reason.NOT_ALLOWED, "docker": Reason.BUILD_FAILED},
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
