"""Ignore rules: what of a folder is sent is what git would add, whatever they say."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from runner import pack
from runner.pack.contents import MemberKind
from tests.fuzz.parts import Parts

TOKENS = (
    *(b"a", b"b", b"A", b"ab", b".o", b"*", b"**", b"?", b"/", b"[", b"]", b"!", b"^"),
    *(b"-", b"\\", b"#", b" ", b"\t", b"\n", b"\n!", b"/**", b"**/", b"[a-b]", b"[!a]"),
    *(b"\n/", b"/\n", b"*\n!a", b"\xc3\xa9", b"\xff", b"\r\n", b"\\ ", b".", b"]*["),
)
NAMES = (
    *b"a b A ab ba .o a.o b.o abab ^ - #a !a [a] ] \\a * ** ? a-b \\ \xc3\xa9".split(),
    *(b"c", b"a b", b"a ", b" a", b"a\t", b"a\r", b"\\ ", b"\xff", b"a\xff"),
)
FOLDERS = (b"a", b"b", b"ab", b"a.o", b"c", b"a/a", b"a/b", b"b/a/b", b"a/a/a", b"\xff")
SEEDS = (
    bytes([0, 30, 5, 4, 19, 0, 4, 23, 8, 0, 24, 0, 1, 18, 5, 20, 18, 14, 11, 0]),
    bytes([1, 4, 5, 18, 19, 0, 18, 20, 5, 6, 8, 1, 18, 22, 18, 23, 8, 3]),
    bytes([2, 9, 0, 8, 6, 8, 1, 18, 15, 0, 18, 14, 15, 0, 29, 0, 30, 18, 27, 18, 28]),
    bytes([0, 12, 5, 18, 19, 5, 8, 18, 19, 0, 8, 1, 18, 7, 7, 18, 9, 11, 0, 10]),
)
_LOOSE_STARS = re.compile(rb"[^/\n!]\*\*|\*\*[^/\n\r ]")
"""To git what these match depends on whether letters stand before them: it says that
they are as one star, and in `a**/b` they match folders."""

_GIT = shutil.which("git")
_ENVIRON = {
    "PATH": os.environ.get("PATH", ""),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "HOME": os.devnull,
}


def one(data: bytes) -> None:
    """Write rules into two files of a folder; ask git too, if they are for git."""
    parts = Parts(data)
    own = parts.number(255) % 4 == 3
    inner = parts.number(63)
    rules = [parts.one_of(TOKENS) for _ in range(inner)]
    rest = [parts.one_of(TOKENS) for _ in range(min(len(data), 200)) if parts.more]
    folder = _folder()
    name = ".raiignore" if own else ".gitignore"
    files = {folder / name: b"".join(rest), folder / "a/.gitignore": b"".join(rules)}
    try:
        for path, text in files.items():
            path.write_bytes(text)
        found = pack.survey(folder)
        sent = {m.name for m in found.members if m.kind is MemberKind.FILE}
        left = {item.name for item in found.left_out}
        assert not sent & left
        odd = any(map(_LOOSE_STARS.search, files.values()))
        if _GIT and not own and not found.problems and not odd:
            _as_git(folder, sent)
    finally:
        for path in files:
            path.unlink(missing_ok=True)


def _as_git(folder: Path, sent: set[str]) -> None:
    added = _added(folder)
    assert not sent - added, f"git would not add {sorted(sent - added)}"
    assert not added - sent, f"git would add {sorted(added - sent)}"


def _added(folder: Path) -> set[str]:
    asked = ("git", "ls-files", "--others", "--exclude-standard", "-z")
    done = subprocess.run(
        asked, cwd=folder, env=_ENVIRON, check=True, capture_output=True
    )
    return set(map(os.fsdecode, done.stdout.split(b"\0"))) - {""}


@cache
def _folder() -> Path:
    """Make the folder once: files of many names, in folders of many."""
    made = tempfile.TemporaryDirectory(prefix="rai-fuzz-")
    atexit.register(made.cleanup)
    top = Path(made.name)
    for folder in FOLDERS:
        (top / os.fsdecode(folder)).mkdir(parents=True, exist_ok=True)
    for folder in (b".", *FOLDERS):
        for name in NAMES:
            path = top / os.fsdecode(folder) / os.fsdecode(name)
            if not path.exists():
                path.touch()
    if _GIT:
        subprocess.run((_GIT, "init", "-q"), cwd=top, env=_ENVIRON, check=True)
    return top
