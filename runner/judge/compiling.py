"""Compile a team's kernels, inside an image: nothing of the team's is executed.

    python3 -m runner.judge.compiling [--source /src] [--out /build]

Reads ``job.json`` and ``team/`` of the source folder; writes ``compiled.json`` and
``<n>.cubin`` for each unit. Exits 1 if a unit does not compile, and says why on stderr.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from runner.judge import bounded, folders

STANDARD = "c++17"
MOST_AT_ONCE = 4
MOST_CUBIN = 16 << 20
"""Bytes of the machine code of one unit."""

MOST_SAID = 8 << 10
"""Characters that are shown of the compiler's words about one unit."""

SHOWN = "project/cuda/"
"""What a team calls the folder of its sources."""

_FILE = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*\.cu")
_TARGET = re.compile(r"sm_([0-9]{2,3}[af]?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class BadJob(Exception):
    """A job that names what no unit may have; it comes from a fault of rai's."""


@dataclass(frozen=True)
class CompileUnit:
    """A source file of the team's, with its macros, for one target."""

    file: str  # below the team's folder
    target: str  # such as sm_90a
    defines: Mapping[str, int]

    def argv(self, nvcc: str, team: Path, cubin: Path) -> list[str]:
        """Return the compiler's command line, on which each word is checked."""
        code = self.target.removeprefix("sm_")
        argv = [nvcc, "-cubin", f"-gencode=arch=compute_{code},code=sm_{code}"]
        argv += [f"-std={STANDARD}", f"-I{team}"]
        argv += [f"-D{name}={value}" for name, value in self.defines.items()]
        return [*argv, "-o", str(cubin), str(team / self.file)]


def units_of(job: object) -> list[CompileUnit]:
    """Return the units of a job; raise BadJob."""
    if not isinstance(job, dict) or not isinstance(job.get("units"), list):
        raise BadJob("units: missing")
    return [_unit(value) for value in job["units"]]


def _unit(value: object) -> CompileUnit:
    if not isinstance(value, dict):
        raise BadJob(f"not a unit: {value!r:.80}")
    file, target = value.get("file"), value.get("target")
    defines = value.get("defines", {})
    if not isinstance(file, str) or not _FILE.fullmatch(file):
        raise BadJob(f"not the name of a source file: {file!r:.80}")
    if not isinstance(target, str) or not _TARGET.fullmatch(target):
        raise BadJob(f"not a target: {target!r:.80}")
    if not isinstance(defines, dict):
        raise BadJob(f"not macros: {defines!r:.80}")
    for name, number in defines.items():
        if not _NAME.fullmatch(name) or type(number) is not int:
            raise BadJob(f"not a macro with a number: {name!r:.80}={number!r:.80}")
    return CompileUnit(file, target, defines)


def find_nvcc() -> str | None:
    """Return the path of the compiler, if there is one."""
    found = shutil.which("nvcc")
    homes = filter(None, (os.environ.get("CUDA_HOME"), "/usr/local/cuda"))
    places = [found, *(f"{home}/bin/nvcc" for home in homes)]
    return next((path for path in places if path and os.access(path, os.X_OK)), None)


def compile_unit(unit: CompileUnit, nvcc: str, team: Path, cubin: Path) -> str | None:
    """Compile a unit into a file; return why it did not work, or None."""
    if why := unsuitable(team, unit.file):
        return why
    with tempfile.TemporaryDirectory(prefix="rai-") as folder:
        made = Path(folder, "out.cubin")
        done = bounded.run(unit.argv(nvcc, team, made), Path(folder))
        if done.status is None:
            return f"nvcc took longer than {bounded.BOUNDS.seconds:g} s"
        if done.status != 0 or not made.is_file():
            return f"nvcc {done.ended}\n{shortened(done.output, team)}".rstrip()
        if (size := made.stat().st_size) > MOST_CUBIN:
            return f"its machine code has {size:,} bytes; the limit is {MOST_CUBIN:,}"
        shutil.copyfile(made, cubin)
    return None


def unsuitable(team: Path, file: str) -> str | None:
    """Return why a name is not that of a regular file below a folder, or None."""
    path = team
    for part in Path(file).parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError:
            return "no such file"
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return "not a regular file"
    return None if stat.S_ISREG(mode) else "not a regular file"


def shortened(output: str, team: Path, shown: str = SHOWN) -> str:
    """Return a compiler's words, with files called what the team calls them."""
    text = output.replace(f"{team}/", shown)
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]}\n[cut]"


def compile_all(source: Path, out: Path) -> list[tuple[CompileUnit, str | None]]:
    """Compile all units of a folder's job; return each with why it did not work.

    Raises BadJob, OSError.
    """
    units = units_of(json.loads((source / "job.json").read_bytes()))
    nvcc = find_nvcc()
    if nvcc is None:
        raise BadJob("no nvcc in PATH, CUDA_HOME or /usr/local/cuda")
    team = source / "team"

    def one(number: int) -> str | None:
        return compile_unit(units[number], nvcc, team, out / f"{number}.cubin")

    with ThreadPoolExecutor(min(MOST_AT_ONCE, os.cpu_count() or 1)) as pool:
        return list(zip(units, pool.map(one, range(len(units))), strict=True))


def report(results: list[tuple[CompileUnit, str | None]]) -> dict[str, object]:
    """Return what ``compiled.json`` says."""
    return {
        "units": [
            {
                "ok": why is None,
                "cubin": f"{n}.cubin" if why is None else "",
                "log": why or "",
            }
            for n, (_, why) in enumerate(results)
        ]
    }


def main(argv: list[str] | None = None) -> int:
    """Compile a job's units; return the exit status."""
    source, out = folders.read("runner.judge.compiling", argv)
    bounded.limit()
    try:
        results = compile_all(source, out)
    except (BadJob, OSError, ValueError) as error:
        sys.stderr.write(f"cannot compile: {error}\n")
        return 1
    text = json.dumps(report(results), indent=1)
    (out / "compiled.json").write_text(f"{text}\n", encoding="utf-8")
    failed = [(unit, why) for unit, why in results if why is not None]
    for unit, why in failed:
        sys.stderr.write(f"{SHOWN}{unit.file} ({unit.target}): {why}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
