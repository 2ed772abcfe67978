"""Each hostile case ends as it should, on each engine, and leaves nothing."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from runner.system import trees
from tests.hostile import cases, drive, leftovers, results
from tests.hostile.case import Case, Ended, Site
from tests.hostile.columns import COLUMNS, Column, argv, environment

MOST_MB = 200.0

QUICK = "local bubblewrap user"
SMOKE = (
    "namespaces",
    "the host's files",
    "fork bomb",
    "erased lines",
    "over the policy",
)
"""Cases that are run in the column QUICK after every change."""

pytestmark = [pytest.mark.hostile, pytest.mark.programs, pytest.mark.root]


def _parameters() -> Iterator[object]:
    every = [(topic, case) for topic, all_ in cases.by_topic().items() for case in all_]
    for topic, case in every:
        for column in COLUMNS:
            if case.applies(column.name):
                marks = [getattr(pytest.mark, column.engine)]
                marks += [pytest.mark.slow] if case.in_ci(column.name) else []
                if column.name == QUICK and case.name in SMOKE:
                    marks += [pytest.mark.smoke]
                name = f"{topic}-{case.name}-{column.name}".replace(" ", "_")
                yield pytest.param(case, column, marks=marks, id=name)


@pytest.fixture
def site(column: Column) -> Iterator[Site]:
    """Make the folder of a case, which the ordinary user can reach."""
    root = Path(tempfile.mkdtemp(prefix="hostile-", dir="/tmp"))
    root.chmod(0o755)
    site = Site(root, f"h{secrets.token_hex(4)}", column.name)
    yield site
    if column.engine == "docker":
        leftovers.remove_images(site)
    subprocess.run(["chattr", "-R", "-ia", str(root)], capture_output=True, check=False)
    trees.remove(root)


@pytest.mark.parametrize(("case", "column"), list(_parameters()))
def test_a_hostile_run_ends_as_it_should_and_leaves_nothing(
    case: Case, column: Column, site: Site, builds: Path
):
    ended = drive.run(case, column, site, builds)
    told = _told(ended)
    said = case.needs in ended.unenforced
    reason = case.reason(column.name)
    wanted = reason.exit_code if case.exit_code is None else case.exit_code
    if said:
        assert case.needs in ended.stderr.decode(errors="replace").splitlines()[0], told
        assert case.needs in doctors_word(column), "rai doctor does not say it"
    else:
        assert ended.exit_code == wanted, told
        assert ended.reason in ("", reason), told
    assert b"Traceback" not in ended.stderr, told
    assert ended.peak_mb < MOST_MB, told
    secret = ended.site.secret.encode()
    for text in (ended.stdout, ended.stderr, ended.log(), ended.log("stderr")):
        assert secret not in text, "it read a file outside of its folders"
    if case.check and not said:
        case.check(ended)
    leftovers.check(case, ended)
    results.keep(case, column, ended, said=said)


@cache
def doctors_word(column: Column) -> str:
    """Return what ``rai doctor`` says of the column's engine to its user."""
    root = Path(tempfile.mkdtemp(prefix="hostile-", dir="/tmp"))
    site = Site(root, "doctor", column.name)
    case = Case(name="doctor", tries="", ends={})
    try:
        drive.write(case, column, site)
        done = subprocess.run(
            argv(column, case, site, ["doctor", "--json"]),
            env=environment(site),
            capture_output=True,
            check=False,
        )
    finally:
        shutil.rmtree(root)
    findings = json.loads(done.stdout)
    return "\n".join(map(str, (f for f in findings if column.engine in str(f))))


def _told(ended: Ended) -> str:
    """Return all that tells why a run ended so."""
    return (
        f"exit {ended.exit_code}, {ended.reason or 'no record'}, {ended.seconds:.1f} s,"
        f" {ended.peak_mb:.0f} MB\n{os.fsdecode(ended.stderr[-3000:])}"
    )
