"""Check what a team's convolution on the CPU returned: all of it, in float64.

    python3 -m runner.judge.checking [--source /src] [--out /build]

Reads ``inputs/`` (ours) and ``played/`` (the team's, of which only bytes are read);
writes ``measurement.json``. Exits 1 only if nothing could be checked.
"""

from __future__ import annotations

import json
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from runner.judge import bounded, cases, folders, wrong
from runner.judge.building import HOST, compiler
from runner.judge.cases import FLOAT, ConvolutionCase
from runner.judge.wrong import Wrong

OPTIONS = ("-std=c++17", "-O3", "-march=native")
ENTRY = "convolution"
"""What the outcome calls the team's function."""

BOUNDS = bounded.Bounds(seconds=120.0, memory=4 << 30)


class CheckError(Exception):
    """The judge itself failed."""


@dataclass(frozen=True)
class CheckedCase:
    """What became of a case: why its file is none, or the first wrong output."""

    why: str = ""
    wrong: Wrong | None = None
    worst: float = 0.0  # the largest error, as a share of what is allowed


def unfit(path: Path, size: int) -> str:
    """Return why a file cannot be the y of a case, or nothing; it is not opened."""
    try:
        found = path.lstat()
    except OSError:
        return "it was not written"
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_size != size:
        return f"it has {found.st_size:,} bytes; expected {size:,}"
    return ""


def compare(
    program: Path, source: Path, number: int, case: ConvolutionCase
) -> CheckedCase:
    """Compare the y of a case with the sums; raise CheckError."""
    y = source / "played" / f"{number}.y"
    if why := unfit(y, FLOAT * case.y_count):
        return CheckedCase(f"y of {case.words}: {why}")
    ours = source / "inputs"
    argv = [program, ours / f"{number}.x", ours / f"{number}.k", y, *case.sizes]
    done = bounded.run([str(word) for word in argv], program.parent, BOUNDS)
    if done.status != 0:
        raise CheckError(f"the check of {case.words} {done.ended}: {done.output}")
    count, first, found, expected, worst = map(float, done.output.split())
    if count == 0:
        return CheckedCase(worst=worst)
    return CheckedCase(
        wrong=wrong_at(case, number, int(first), found, expected), worst=worst
    )


def wrong_at(
    case: ConvolutionCase, number: int, index: int, found: float, expected: float
) -> Wrong:
    """Return where in y an index is, with what was found there."""
    rows, columns = case.H - case.K + 1, case.W - case.K + 1
    where = wrong.place(index, case.M, rows, columns)
    return Wrong(number, case.name, *where, found, expected, inputs=case.kind)


def sentence(found: Wrong) -> str:
    """Return what is wrong, with its place and both numbers."""
    place = f"image {found.image}, map {found.map}, row {found.row}"
    return (
        f"wrong result for {found.layer} ({found.inputs} values): {place}, "
        f"column {found.column} is {found.found}; expected {found.expected:.7g}"
    )


def compiled(folder: Path) -> Path:
    """Compile the comparison; raise CheckError."""
    gxx, program = compiler(), folder / "check"
    if gxx is None:
        raise CheckError("there is no g++ here")
    argv = [gxx, *OPTIONS, "-o", str(program), str(HOST / "check.cpp")]
    done = bounded.run(argv, folder)
    if done.status != 0:
        raise CheckError(f"g++ {done.ended}: {done.output}")
    return program


def check(source: Path) -> dict[str, object]:
    """Check all cases, up to the first that is wrong; return the entry.

    Raises CheckError.
    """
    worst, calls, values = 0.0, 0, 0
    found = CheckedCase()
    with tempfile.TemporaryDirectory(prefix="rai-") as folder:
        program = compiled(Path(folder))
        for number, case in enumerate(cases.read(source / "inputs")):
            found = compare(program, source, number, case)
            worst = max(worst, found.worst)
            if found.why or found.wrong:
                break
            calls += 1
            values += case.y_count
    why = found.why or (sentence(found.wrong) if found.wrong else "")
    return {
        "variant": ENTRY,
        "accepted": not why,
        "why": [why] if why else [],
        "correct": not why,
        "checked": {"calls": calls, "values": values},
        "wrong": found.wrong.to_json() if found.wrong else None,
        "error": worst,
    }


def outcome(source: Path) -> dict[str, object]:
    """Return what ``measurement.json`` says; raise CheckError, OSError, ValueError."""
    job = json.loads((source / "job.json").read_bytes())
    listed = json.loads((source / "inputs" / cases.LIST).read_bytes())
    return {
        "version": 1,
        "milestone": job["milestone"],
        "class": job["class"],
        "architecture": None,
        "seed": listed["seed"],
        "gpu": None,
        "entries": [check(source)],
    }


def main(argv: list[str] | None = None) -> int:
    """Check all cases and write the outcome; return the exit status."""
    source, out = folders.read("runner.judge.checking", argv)
    try:
        found = outcome(source)
    except (CheckError, OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"cannot check: {error}\n")
        return 1
    folders.keep_measurement(out, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
