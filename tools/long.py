"""List the long test suites that are due: their sources changed since they passed.

    python tools/long.py check [SUITE ...]           # print those that are; 1 if any is
    python tools/long.py record [SUITE[=HASH] ...]   # they have passed whole

A suite is named by its folder. tests/passed.json has a hash for each, of the files that
SUITES names: of their contents, and whether they can be executed. Files that git would
ignore do not count. `check` prints hashes too, so that what is recorded is what was
tested, whatever has changed meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = "tests/passed.json"

EVERY = (
    "pyproject.toml tests/plugin.py tests/kit/__init__.py tests/kit/needs.py "
    "tests/kit/outside.py tests/kit/kept.py tests/kit/program.py tests/kit/waiting.py"
)
"""What every suite depends on."""

SUITES = {
    "tests/exploits": "tests/kit/marks.py tests/kit/odd_files.py tests/kit/topics.py "
    "project/cuda runner/core runner/judge runner/spec/milestones runner/submit "
    "runner/system/trees.py",
    "tests/fuzz": "runner/core runner/figures runner/pack runner/report runner/spec "
    "runner/store runner/submit runner/system runner/terminal",
    "tests/hostile": "tests/kit/marks.py tests/kit/odd_files.py "
    "tests/kit/odd_servers.py tests/kit/topics.py tools/benchmarks/rows.py "
    "runner/core runner/engines "
    "runner/figures runner/pack runner/report/evidence.py runner/execution runner/spec "
    "runner/store runner/system runner/terminal",
    "image/nvprof/tests": "image/nvprof tests/data/transcripts",
    "project/tests": "project plan.json docs/kernels docs/kernels.md "
    "runner/judge/arithmetic.py tools/benchmarks/judge_ladder.py",
}
"""The files and folders that each depends on, beside its own."""


@cache
def suite_of(file: Path) -> str | None:
    """Return the suite that a file of tests is in, if any."""
    return next((suite for suite in SUITES if ROOT / suite in file.parents), None)


def digest(suite: str, root: Path = ROOT) -> str:
    """Return the hash of all files that a suite depends on."""
    ls = ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard", "--"]
    words = [*ls, suite, *EVERY.split(), *SUITES[suite].split()]
    listed = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    whole = hashlib.sha256()
    for file in sorted(set(listed.split("\0"))):
        if (path := root / file).is_file():
            runs = bool(path.stat().st_mode & 0o100)
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{content} {runs} {file}\n".encode())
    return whole.hexdigest()


def kept(root: Path = ROOT) -> dict[str, str]:
    """Return the hashes that suites have passed with."""
    path = root / KEPT
    return json.loads(path.read_text()) if path.exists() else {}


def main(verb: str, words: Iterable[str], root: Path = ROOT) -> int:
    """Check or record suites; return an exit code."""
    given = dict(word.partition("=")[::2] for word in words)
    hashes = {suite: given[suite] or digest(suite, root) for suite in given}
    if verb == "record":
        lines = json.dumps({**kept(root), **hashes}, indent=2, sort_keys=True)
        (root / KEPT).write_text(lines + "\n")
        return 0
    due = [suite for suite in hashes if kept(root).get(suite) != hashes[suite]]
    print(*(f"{suite}={hashes[suite]}" for suite in due))
    return 1 if due else 0


if __name__ == "__main__":
    named = {word.partition("=")[0] for word in sys.argv[2:]}
    if sys.argv[1:2] not in (["check"], ["record"]) or named - {*SUITES}:
        sys.exit(f"usage: python tools/long.py check|record [{' | '.join(SUITES)} ...]")
    sys.exit(main(sys.argv[1], sys.argv[2:] or SUITES))
