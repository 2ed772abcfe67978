"""Rehearse submissions of this project as three teams.

    python -m tools.benchmarks.teams [--times 10] [--folder DIR] [-- rai's options]

Each team has a copy of the project with another variant as its final one, and a report.
The first one's final is rehearsed --times times, then its m3 and m4, and the finals of
the others once. Measurements are kept in DIR/measurements, for
`tools.benchmarks.judged`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.kit import sample_submission as sample
from tools.benchmarks import projects, rows

TEAMS = ("best", "per_layer", "implicit_gemm")
"""The variant of each team's final submission."""

FOLDER = rows.ROOT / "build" / "teams"
LONGEST_S = 1800


class Rehearsal(NamedTuple):
    """One rehearsal to carry out: whose, of what, and for which time."""

    team: str
    milestone: str
    number: int = 1


def programme(times: int) -> Iterator[Rehearsal]:
    """Yield what is rehearsed; the teams take turns while all have finals left."""
    first, *others = TEAMS
    yield Rehearsal(first, "final")
    yield from (Rehearsal(team, "final") for team in others)
    yield Rehearsal(first, "m3")
    yield Rehearsal(first, "m4")
    yield from (Rehearsal(first, "final", number) for number in range(2, times + 1))


def team(folder: Path, variant: str) -> Path:
    """Make a team's copy of the project, with its plan and its report."""
    place = folder / variant
    shutil.rmtree(place, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "models", "tests")
    shutil.copytree(rows.ROOT / "project", place / "project", ignore=ignored)
    command = [sys.executable, "project/plan.py", "--final", variant]
    subprocess.run(command, cwd=place, check=True)
    (place / "report.pdf").write_bytes(sample.report())
    return place


def rehearse(
    one: Rehearsal, project: Path, kept: Path, options: Sequence[str]
) -> list[str]:
    """Carry out one rehearsal; keep what it says, and return its row of the table."""
    command = [projects.RAI, "submit", one.milestone, "-p", str(project), "--rehearse"]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--json", *options],
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
    )
    spent = time.perf_counter() - began
    name = f"{one.team}-{one.milestone}-{one.number}"
    kept.mkdir(parents=True, exist_ok=True)
    (kept.parent / f"{name}.log").write_bytes(done.stderr)
    found = _outcome(done.stdout)
    if "entries" in found:
        (kept / f"{name}.json").write_bytes(done.stdout)
    said, *_ = [*done.stderr.decode(errors="replace").splitlines(), ""]
    head = [one.team, one.milestone, str(one.number), str(done.returncode)]
    return [*head, f"{spent:.1f}", *_figures(found, said)]


def _outcome(printed: bytes) -> dict[str, Any]:
    try:
        found = json.loads(printed)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _figures(found: dict[str, Any], said: str) -> tuple[str, str]:
    """Return how long the GPU was held, and what each entry came to."""
    if "entries" not in found:
        return "-", str(found.get("message") or said)
    told = []
    for entry in found["entries"]:
        if not entry["accepted"]:
            told.append(f"{entry['variant']} refused: {'; '.join(entry['why'])}")
            continue
        low, high = entry["interval"]
        figures = (
            f"{entry['ms']:.4f} ms, {entry['ratio']:.4f} ({low:.4f} to {high:.4f})"
        )
        told.append(f"{entry['variant']} {figures}")
    return f"{found.get('held_s', 0):.1f}", "; ".join(told)


def main() -> int:
    """Carry out all rehearsals, and print a line of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="of rai submit")
    words = parser.parse_args()
    folder = words.folder.resolve()
    homes = {variant: team(folder / "projects", variant) for variant in TEAMS}
    heads = ("team", "milestone", "time", "exit", "s", "GPU s", "outcome")
    print("{:14} {:9} {:>4} {:>4} {:>6} {:>6}  {}".format(*heads), flush=True)
    statuses = set()
    for one in programme(words.times):
        row = rehearse(one, homes[one.team], folder / "measurements", words.options)
        print("{:14} {:9} {:>4} {:>4} {:>6} {:>6}  {}".format(*row), flush=True)
        statuses.add(row[3])
    return int(statuses != {"0"})


if __name__ == "__main__":
    sys.exit(main())
