"""The folder of each run of a submission: generated, private, removed after.

The judge's files are as they were released (`runner/judge/SHA256SUMS`, which
`python tools/golden.py` writes), and what an earlier run built is taken for hostile.

with staging.area(settings.home) as area:
    folder = area.stage(milestone.run("compile"), parts)  # for `session.prepare`
    ...
    builds = {"compile": paths.build}
    after = area.stage(milestone.run("measure"), parts, builds)
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from msgspec import Struct

from runner import pack
from runner.core import LIMITS, MIB, Archive, Problem, measurement, work
from runner.core.errors import EngineError, NotAllowedError
from runner.core.measurement import JudgeJob
from runner.core.milestone import Held, HeldKind, Milestone, MilestoneRun, Trust
from runner.core.work import Caps
from runner.spec import yamlfile
from runner.spec.milestones import folder as own_folder
from runner.spec.milestones.folder import STAFF
from runner.store import removal
from runner.store.paths import Home
from runner.submit import files as globs
from runner.submit.files import SubmittedFile
from runner.system import files, trees

BUILD_FILE = "rai_build.yml"
BUILD_FILES = (BUILD_FILE, "rai-build.yml")
DOCKERFILE = "Dockerfile"
REQUIREMENTS = "requirements.txt"
IGNORE_FILE = ".raiignore"
BUILD_IGNORE_FILE = ".dockerignore"
_DECIDING = (*BUILD_FILES, DOCKERFILE.lower())
_IGNORING = (IGNORE_FILE, ".gitignore")
JUDGE = "runner/judge"

_EVERYTHING = "!**\n"
"""A file of rules that leaves nothing out."""

_PINS_ONLY = f"*\n!{REQUIREMENTS}\n"
"""What the image is made of, so that no other submission builds it again."""

GOLDEN = Path(__file__).parents[1] / "judge"
SUMS = "SHA256SUMS"
MOST_GOLDEN_BYTES = 16 * MIB
MOST_GOLDEN_FILES = 500

_REINSTALL = "install rai again; after a change of these files run tools/golden.py"

_ROOT = "build"
MOST_TAKEN = 1000

_CUBIN = re.compile(r"(?:0|[1-9][0-9]{0,3})\.cubin")
_ELF = b"\x7fELF"


class GoldenFiles(Struct, frozen=True):
    """The judge's files by name, relative to its folder, and a digest of them all."""

    files: Mapping[str, bytes]
    digest: str

    def matching(self, patterns: tuple[str, ...]) -> dict[str, bytes]:
        """Return the files whose names match a pattern."""
        return {
            name: content
            for name, content in self.files.items()
            if _matches(patterns, name)
        }


class StagedParts(Struct, frozen=True):
    """What a run can hold, but earlier builds. The job is None where there is none.

    ``golden`` are the files of whoever judges: rai's, or an assignment's staff.
    """

    golden: GoldenFiles
    team: tuple[SubmittedFile, ...] = ()
    job: JudgeJob | None = None


class StagingArea:
    """The private folder of one submission."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def stage(
        self,
        run: MilestoneRun,
        parts: StagedParts,
        builds: Mapping[str, Path] = {},
    ) -> Path:
        """Write the folder of a run with its rai_build.yml; return it.

        ``builds`` has the build archives (build.tar.zst) of earlier runs, by the run's
        name in the milestone.

        Raises:
            RaiError: an archive is hostile, or what it must have is not in it.
        """
        folder = self.root / run.name
        folder.mkdir(mode=0o700)
        own = run.own_image
        ours = contents(run, parts)
        for name, content in ours.items():
            _write(folder, name, content, executable=content.startswith(b"#!"))
        team = parts.team if run.held(HeldKind.TEAM) else ()
        for file in beside(team, ours) if run.held(HeldKind.STAFF) else team:
            if own and file.name in BUILD_FILES:
                continue  # the milestone's commands run
            name = file.name if own else f"team/{file.name}"
            _write(folder, name, file.content, executable=file.executable)
        units = len(parts.job.units) if parts.job else 0
        for held in run.held(HeldKind.BUILD):
            if held.of not in builds:
                raise EngineError(f"the run {held.of} left no build folder")
            found = take(held, builds[held.of], folder / held.into, units)
            missing = [n for n in range(units) if f"{n}.cubin" not in found]
            if missing and _matches(held.patterns, "0.cubin"):
                raise EngineError(f"the run {held.of} left no {missing[0]}.cubin")
        return folder


def contents(run: MilestoneRun, parts: StagedParts) -> dict[str, bytes]:
    """Return the files of a run that are rai's own or the staff's, by name."""
    if run.held(HeldKind.STAFF):
        names = "".join(f"!/{name}\n" for name in parts.golden.files)
        return {
            **parts.golden.files,
            IGNORE_FILE: (_EVERYTHING + names).encode(),
            BUILD_IGNORE_FILE: f"*\n{names}".encode(),
        }
    found = {BUILD_FILE: build_text(run).encode()}
    if run.held(HeldKind.JOB):
        if parts.job is None:
            raise EngineError(f"the run {run.name} needs a job, and there is none")
        found[measurement.FILE] = measurement.job_json(parts.job)
    if not run.own_image:
        found[IGNORE_FILE] = _EVERYTHING.encode()
        found[BUILD_IGNORE_FILE] = _PINS_ONLY.encode()
        image = parts.golden.matching((DOCKERFILE, REQUIREMENTS))
        if DOCKERFILE not in image:
            raise EngineError(f"the judge's files have no {DOCKERFILE}")
        found |= image
    for held in run.held(HeldKind.GOLDEN):
        found["runner/__init__.py"] = b""
        for name, content in parts.golden.matching(held.patterns).items():
            found[f"{JUDGE}/{name}"] = content
    return found


def beside(
    team: Iterable[SubmittedFile], staff: Iterable[str]
) -> Iterator[SubmittedFile]:
    """Yield the team's files that cannot stand in for the staff's, or decide for them.

    Left out is what has the name of one, in any case, of a folder above one, or is
    below one; and what says what is run, built or left out.
    """
    names = {_alike(name) for name in staff}
    above = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    for file in team:
        path = PurePosixPath(_alike(file.name))
        decides = path.name in _IGNORING or path.name.endswith(BUILD_IGNORE_FILE)
        shadows = not {str(path), *map(str, path.parents)}.isdisjoint(names)
        if not (decides or shadows or str(path) in (*_DECIDING, *above)):
            yield file


def _alike(name: str) -> str:
    """Return a name as file systems have it that know no case and compose."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def build_text(run: MilestoneRun) -> str:
    """Return the rai_build.yml of a run."""
    resources: dict[str, object] = {"gpu": {"count": 1}} if run.gpu else {}
    resources["limits"] = {row.key: row.written(run.limits) for row in LIMITS}
    if run.data:
        resources["dataresources"] = [
            {
                "mount": one.directory,
                "source": {"url": one.url} | ({"md5": one.md5} if one.md5 else {}),
            }
            for one in run.data
        ]
    build_image = {"dockerfile": DOCKERFILE, "target": run.target}
    values: dict[str, object] = {"rai": {"version": "0.2"}, "resources": resources}
    if run.env:
        values["env"] = dict(run.env)
    values["commands"] = {"build_image": build_image, "build": list(run.commands)}
    return yamlfile.dump(values)


def packed(folder: Path, into: Path) -> Archive:
    """Pack the folder of a run."""
    packing = pack.FolderProject(folder).pack(into)
    try:
        while True:
            next(packing)
    except StopIteration as end:
        found: Archive = end.value
        return found


@contextmanager
def area(home: Path) -> Iterator[StagingArea]:
    """Make a folder in `home/submissions`, and remove it afterwards.

    What a killed process left there is removed too.

    Raises:
        ConfigError: it cannot be made.
    """
    with removal.folder(Home(home).submissions) as folder:
        yield StagingArea(folder)


def golden(milestone: Milestone) -> GoldenFiles:
    """Read the files of whoever judges a milestone: rai's judge, or its staff.

    Raises:
        EngineError, ConfigError: they are not as they should be.
    """
    if milestone.trust is not Trust.TIMED:
        return judge_files()
    found = own_folder.read_folder(Path(milestone.folder) / STAFF.name, STAFF)
    sums = {name: work.digest_of(content) for name, content in found.items()}
    return GoldenFiles(found, work.digest_of_set(sums))


def judge_files(folder: Path = GOLDEN) -> GoldenFiles:
    """Read and verify the judge's files.

    Raises:
        EngineError: a file differs from its digest, is absent, or is not listed;
            carries every problem.
    """
    problems: list[Problem] = []
    listed = _sums(folder)
    found: dict[str, bytes] = {}
    for name, sha256 in listed.items():
        try:
            content = files.read_below(folder, name, MOST_GOLDEN_BYTES)
        except OSError as error:
            text = f"{folder / name} cannot be read: {error.strerror}"
            problems.append(Problem(text, hint=_REINSTALL))
            continue
        if work.digest_of(content) != sha256:
            text = f"{folder / name} is not as it was released"
            problems.append(Problem(text, hint=_REINSTALL))
        found[name] = content
    for name in _names(folder):
        if name not in listed:
            text = f"{folder / name} is not in {SUMS}"
            problems.append(Problem(text, hint=_REINSTALL))
    if problems:
        raise EngineError(*problems)
    return GoldenFiles(found, work.digest_of_set(listed))


def _sums(folder: Path) -> dict[str, str]:
    try:
        text = files.read_below(folder, SUMS, 1 << 20).decode()
        pairs = [line.split("  ", 1) for line in text.splitlines()]
        return {name: sha256 for sha256, name in pairs}
    except (OSError, ValueError) as error:
        text = f"{folder / SUMS} cannot be read: {error}"
        raise EngineError(Problem(text, hint=_REINSTALL)) from error


def _names(folder: Path) -> list[str]:
    """Return the names of the files in the folder, but what Python keeps there."""
    names = []
    for entry in trees.entries(folder, most=MOST_GOLDEN_FILES):
        name = "/".join((*entry.above, entry.name))
        if not entry.within and "__pycache__" not in entry.above and name != SUMS:
            names.append(name)
    return names


def take(held: Held, source: Path, into: Path, units: int = 0) -> dict[str, int]:
    """Unpack the files of a build archive that a run holds; return their sizes.

    Machine code (`*.cubin`) is in ELF and named `0.cubin` to one less than ``units``.

    Raises:
        NotAllowedError: the archive is hostile, or has other files than it should.
        RaiError: it is damaged.
    """
    into.mkdir(parents=True, mode=0o700)
    caps = Caps(held.most_bytes + (1 << 20), MOST_TAKEN, held.most_bytes)

    found = pack.pick(
        source, into, lambda name, _: _matches(held.patterns, name), caps, _ROOT
    )
    problems = [
        Problem(f"{held.of}: {name} {why}", hint="the run did not make what it should")
        for name in found
        if (why := _wrong(into / name, name, units))
    ]
    if problems:
        raise NotAllowedError(*problems)
    return found


def _wrong(path: Path, name: str, units: int) -> str:
    """Return what is wrong with a file, "" if nothing."""
    if not name.endswith(".cubin"):
        return ""
    if not _CUBIN.fullmatch(name) or int(name.split(".")[0]) >= units:
        return "is not the machine code of a unit"
    with path.open("rb") as file:
        return "" if file.read(len(_ELF)) == _ELF else "is not machine code"


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(globs.glob_matches(pattern, name) for pattern in patterns)


def _write(
    folder: Path, name: str, content: bytes, *, executable: bool = False
) -> None:
    path = folder / name
    trees.make(folder, path.relative_to(folder).parts[:-1])
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(path, flags, 0o755 if executable else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
