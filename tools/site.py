"""Gather the pages of the site: `python -m tools.site FOLDER`, for `make docs`.

They keep their places, so that their links do; what they link to comes along. The page
of commands is made of the help texts, and is nowhere else.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
HEAD = """\
# Commands

`rai -p DIR ...` and `rai DIR/ ...` are `rai run DIR ...`.
RUN is a run's id, its beginning, its tag, or `latest`.
`--debug`, anywhere, adds a traceback to an error.
"""


def gather(into: Path) -> None:
    """Copy the pages that README.md leads to, and write that of the commands."""
    shutil.rmtree(into, ignore_errors=True)
    todo, done = [ROOT / "README.md"], set()
    while todo:
        page = todo.pop()
        if page in done or not page.is_relative_to(ROOT) or page.is_dir():
            continue
        done.add(page)
        copy = into / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, copy)
        if page.suffix == ".md":
            links = LINK.findall(page.read_text("utf-8"))
            todo += [(page.parent / link).resolve() for link in links]
    (into / "docs/cli.md").write_text(commands(), "utf-8")


def commands() -> str:
    """Return a page of the help of all commands, each below a title of its own."""
    from runner.cli.main import COMMANDS, command

    parts = [HEAD, f"```text\n$ rai --help\n{_help()}\n```\n"]
    for name in COMMANDS:
        below = getattr(command(name), "commands", ())
        for words in ([name], *([name, one] for one in below)):
            title = f"{'#' * (len(words) + 1)} rai {' '.join(words)}"
            parts.append(f"{title}\n\n```text\n{_help(*words)}\n```\n")
    return "\n".join(parts)


def _help(*words: str) -> str:
    plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    argv = [sys.executable, "-m", "runner.cli.main", *words, "--help"]
    done = subprocess.run(argv, env=plain, capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


if __name__ == "__main__":
    os.chdir(ROOT)
    gather(Path(sys.argv[1]).resolve())
