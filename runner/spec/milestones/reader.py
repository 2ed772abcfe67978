"""Read a milestone's file: text to a Milestone, or every problem with its place. Pure.

Unlike in a build file an unknown key is an error: it would ask for less than it says.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runner.core import LIMITS, BuildSpec, Problem
from runner.core.errors import ConfigError
from runner.core.milestone import (
    Counted,
    EntryCount,
    Held,
    HeldKind,
    LayerShape,
    Milestone,
    MilestoneRun,
    Points,
    Reference,
    ReportedKind,
    ReportItem,
    RequiredFile,
    Shape,
    TeamParts,
    Trust,
)
from runner.core.quantities import COUNT, SIZE, Kind, one_of
from runner.judge.figures import Rules
from runner.spec.fields import Fields, Grammar
from runner.spec.milestones import folder
from runner.spec.milestones.folder import BUILD_FILE, Staff
from runner.spec.yamlfile import (
    MappingNode,
    ScalarNode,
    kind,
)

CLASSES = ("fp32", "tf32", "half")
"""The accuracy classes of entries."""

MOST_ENTRIES = 16
_SIZES = ("M", "C", "H", "W", "K")
_OF_THE_JUDGE = ("runs", "layers", "images", "entries", "rules", "references")
HARNESS = "harness"
"""The name of the one run of an assignment."""

DEADLINE = "2026-12-11 23:59 America/Chicago"

_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\s*([A-Za-z+-][A-Za-z0-9_+/-]*))?"
)

_DECIMAL = re.compile(r"\d{1,12}(?:\.\d{0,12})?(?:e[+-]?\d{1,2})?")
_TRUST, _COUNTS = one_of(tuple(Trust)), one_of(tuple(Counted))
_CLASS, _TYPE = one_of(CLASSES), one_of(("pdf",))


def decimal(text: str) -> float | None:
    """Parse a number that is not negative: ``4``, ``0.05``, ``1e-3``, ``5%``."""
    number, percent = text.removesuffix("%"), text.endswith("%")
    if not _DECIMAL.fullmatch(number):
        return None
    return float(number) / 100 if percent else float(number)


_NUMBER = Kind("a number that is not negative", decimal)
_ABOVE_0 = Kind("a number above 0", lambda text: decimal(text) or None)
_FACTOR = Kind(
    "a share up to 100%",
    lambda text: None if (share := decimal(text)) is None or share > 1 else share,
)
_SHARE = Kind(
    "a share such as 5%",
    lambda text: share if (share := decimal(text)) and share < 1 else None,
)
IMAGES = "{images}"
"""Stands in a command for each number of images."""

_REPORT = "[{script: m3.1.py, shows: [op times], command: python m3.1.py}]"
_SHOWS = one_of(tuple(ReportedKind))
_IMAGE_COUNT = Kind("a whole number above 0", COUNT.at_least(1).parse)

KEYS: Grammar = {
    "": (
        *("title", "edition", "trust", "class", "deadline", "grace", "late"),
        *("attempts", "counts", "points", "late_factor", "required", "team"),
        *("entries", "images", "layers", "runs", "rules", "references", "report"),
    ),
    "points[]": ("points", "ms", "ratio"),
    "required[]": ("path", "type", "size"),
    "team": ("below", "files", "most_files", "size"),
    "entries": ("least", "most"),
    "layers[]": ("name", "M", "C", "H", "W", "K"),
    "runs[]": (
        *("name", "image", "target", "gpu", "holds", "limits", "dataresources"),
        *("env", "commands"),
    ),
    "runs[].holds[]": ("golden", "build", "files", "into", "size"),
    "runs[].limits": tuple(limit.key for limit in LIMITS),
    "runs[].dataresources[]": ("mount", "source"),
    "runs[].dataresources[].source": ("url", "md5"),
    "references[]": ("gpu", "ms", "band"),
    "report[]": ("script", "shows", "images", "variants", "command"),
}
"""The keys of each mapping, by its dotted path; ``[]`` are the items of a list."""


def parse(raw: bytes, file: str, name: str, staff: Staff | None = None) -> Milestone:
    """Return the milestone of a file's bytes; ``file`` is shown in problems.

    ``staff`` is what is in the `staff/` beside it; None at a server's client, which has
    none.

    Raises:
        ConfigError: with every problem found.
    """
    fields, problems = Fields.parse(raw, file, KEYS)
    found = _milestone(fields, file, name, raw, staff) if fields else None
    inner = staff.problems if staff else ()
    if found is None or problems.found or inner:
        listed = [*problems.in_file_order(), *inner] or [Problem(f"{file} is empty")]
        raise ConfigError(*(Problem(p.message, p.place, p.hint) for p in listed))
    return found


def _milestone(
    fields: Fields, file: str, name: str, raw: bytes, staff: Staff | None
) -> Milestone:
    trust = folder.needed(fields, "trust", _TRUST, "ranked")
    timed, due = trust is Trust.TIMED, None
    if text := fields.text("deadline", "", DEADLINE):
        try:
            due = deadline(text)
        except ValueError as error:
            fields.error("deadline", f'is "{text:.60}": {error}')
    found = Milestone(
        name=name,
        title=folder.needed(fields, "title", folder.LINE, "Milestone 3: a kernel")
        or "",
        edition=folder.needed(fields, "edition", folder.WORD, "2019fa") or "",
        trust=trust or Trust.RECORDED,
        team=_team(fields),
        runs=(_harness(staff),) if timed else folder.read_runs(fields),
        accuracy=fields.read("class", "fp32", _CLASS, "fp32"),
        layers=tuple(_layers(fields)),
        required=tuple(_required(fields)),
        entries=_entries(fields),
        deadline=due,
        grace_s=fields.duration_s("grace", 0.0, "15m"),
        late_s=fields.duration_s("late", 0.0, "2d"),
        attempts=fields.whole("attempts", None, "10"),
        counts=fields.read("counts", None, _COUNTS, "best"),
        points=tuple(_points(fields)),
        late_factor=fields.read("late_factor", 1.0, _FACTOR, "50%"),
        rules=_rules(fields),
        references=tuple(_references(fields)),
        report=tuple(_report(fields)),
        file=file,
        sha256=hashlib.sha256(raw).hexdigest(),
    )
    if trust is Trust.RANKED:
        _check_ranked(fields, found)
    elif timed:
        _check_timed(fields, staff)
    if not timed and staff and (staff.spec or staff.problems):
        text = "only a timed milestone has a folder `staff/`"
        hint = "write `trust: timed`, or remove the folder"
        fields.problems.error(text, fields.place("trust"), hint)
    for key in ("grace", "late"):
        if fields.has(key) and not fields.has("deadline"):
            text = f"`{key}` is after a deadline, and there is none"
            hint = f"add it, e.g. `deadline: {DEADLINE}`"
            fields.problems.error(text, fields.place(key), hint)
    return found


def _check_ranked(fields: Fields, found: Milestone) -> None:
    """Add what a milestone lacks whose times count."""
    if not found.entries.least:
        hint = "add it, e.g. `entries: {least: 1, most: 1}`"
        fields.problems.error("a ranked milestone has no entries", fields.place(), hint)
    if not found.layers:
        hint = "add `images` and `layers`, whose convolutions are measured"
        fields.problems.error("a ranked milestone has no layers", fields.place(), hint)
    if found.team.whole or any(run.own_image for run in found.runs):
        hint = "name the team's files in `team`, and use the golden image"
        text = "a ranked milestone runs nothing of a team but its kernels"
        fields.problems.error(text, fields.place("team"), hint)
    for run in found.runs:
        if run.gpu and run.held(HeldKind.TEAM):
            text = f"the run {run.name} has a GPU and holds the team's files"
            hint = "let it hold what another run compiled of them"
            fields.problems.error(text, fields.place("runs"), hint)


def _harness(staff: Staff | None) -> MilestoneRun:
    """Return the one run of an assignment, which the staff's build file describes."""
    spec = (staff.spec if staff else None) or BuildSpec(BUILD_FILE)
    return MilestoneRun(
        name=HARNESS,
        target="",
        commands=(),
        holds=(Held(HeldKind.TEAM), Held(HeldKind.STAFF)),
        gpu=spec.gpu is not None,
        limits=spec.limits,
        data=spec.data,
        own_image=True,
    )


def _check_timed(fields: Fields, staff: Staff | None) -> None:
    """Add what an assignment lacks, or has that its harness decides."""
    if staff and not (staff.spec or staff.problems):
        text = "a timed milestone is a folder, with `staff/` beside its milestone.yml"
        hint = f"put {BUILD_FILE} and the harness there: docs/teach.md"
        fields.problems.error(text, fields.place("trust"), hint)
    for key in _OF_THE_JUDGE:
        if fields.has(key):
            hint = f"remove it; staff/{BUILD_FILE} says what is run"
            text = f"`{key}` is for rai's judge, which a timed milestone has not"
            fields.problems.error(text, fields.place(key), hint)


def _team(fields: Fields) -> TeamParts:
    node, usual = fields.node.get("team"), TeamParts()
    if isinstance(node, ScalarNode) and node.text.strip() == "project":
        return TeamParts(whole=True, most_files=10_000)
    example = "`below: project/cuda`, or the word `project`"
    team = fields.child("team", example)
    if team is None:
        if node is None:
            hint = f"add `team:` with {example}"
            fields.problems.error("no `team`", fields.place(), hint)
        return usual
    patterns = folder.listed(team, "files", '["**/*.cu", "**/*.cuh"]', folder.PATTERN)
    if not patterns:
        hint = 'add it, e.g. `files: ["**/*.cu"]`'
        team.error("", "has no `files`", hint)
    return TeamParts(
        below=team.read("below", "", folder.PATH, "project/cuda"),
        patterns=patterns,
        most_files=team.whole("most_files", usual.most_files, "2000"),
        most_bytes=team.read("size", usual.most_bytes, SIZE, "64MiB"),
    )


def _required(fields: Fields) -> Iterator[RequiredFile]:
    usual = RequiredFile("")
    for item in fields.mappings("required", "[{path: report.pdf, type: pdf}]"):
        path = folder.needed(item, "path", folder.PATH, "report.pdf")
        yield RequiredFile(
            path or "",
            item.read("type", usual.kind, _TYPE, "pdf"),
            item.read("size", usual.most_bytes, SIZE, "32MiB"),
        )


def _points(fields: Fields) -> Iterator[Points]:
    for item in fields.mappings("points", "[{points: 100, ms: 1.3}, {points: 40}]"):
        points = folder.needed(item, "points", _NUMBER, "100")
        yield Points(
            points or 0.0,
            item.read("ms", None, _ABOVE_0, "1.3"),
            item.read("ratio", None, _ABOVE_0, "0.8"),
        )


def _entries(fields: Fields) -> EntryCount:
    entries = fields.child("entries", "`least: 1`")
    if entries is None:
        return EntryCount()
    least = entries.whole("least", 1, "1")
    most = entries.whole("most", least, "3")
    if not least <= most <= MOST_ENTRIES:
        hint = f"expected `least` up to `most`, and that up to {MOST_ENTRIES}"
        entries.error("", f"is from {least} to {most}", hint)
    return EntryCount(least, most)


def _layers(fields: Fields) -> Iterator[LayerShape]:
    images = fields.whole("images", None, "10000")
    seen: set[str] = set()
    example = "[{name: conv1, M: 12, C: 1, H: 70, W: 70, K: 5}]"
    for item in fields.mappings("layers", example):
        if images is None:
            hint = "add it, e.g. `images: 10000`"
            fields.problems.error("layers need `images`", item.place(), hint)
            return
        name = folder.needed(item, "name", folder.WORD, "conv1")
        found = {key: folder.needed(item, key, folder.SIZE_OF_1, "5") for key in _SIZES}
        sizes = {key: size for key, size in found.items() if size is not None}
        if name is None or len(sizes) < len(_SIZES):
            continue
        if name in seen:
            item.problems.error(f"two layers {name}", item.place(), "rename one")
        if sizes["K"] > min(sizes["H"], sizes["W"]):
            text = f"{item.path}: K x K weights are larger than the image"
            item.problems.error(text, item.place("K"), "correct K, H or W")
        seen.add(name)
        yield LayerShape(name, Shape(images, **sizes))


def deadline(text: str) -> datetime:
    """Return the moment, in its zone.

    Raises:
        ValueError: with what is wrong, and what to write.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a date, a time and a zone, e.g. `{DEADLINE}`")
    day, clock, zone = match.groups()
    if zone is None:
        raise ValueError(f"it has no zone; add one, e.g. `{DEADLINE}`")
    try:
        bare = datetime.fromisoformat(f"{day}T{clock}")
    except ValueError:
        raise ValueError(f"there is no {day} {clock}; correct it") from None
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "use one of the IANA names, e.g. `America/Chicago` or `UTC`"
        raise ValueError(f"there is no time zone {zone}; {hint}") from None
    first, second = (bare.replace(tzinfo=info, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    back = first.astimezone(UTC).astimezone(info).replace(tzinfo=None)
    what = "does not exist" if back != bare else "occurs twice"
    text = f"{bare:%H:%M} {what} that day in {zone}, since the clocks change"
    raise ValueError(f"{text}; choose another time")


def _rules(fields: Fields) -> dict[str, float]:
    node = fields.node.get("rules")
    if node is None:
        return {}
    if not isinstance(node, MappingNode):
        hint = "expected numbers by name, e.g. `rules: {rounds: 40}`"
        fields.problems.error(f"rules is {kind(node)}", node.place, hint)
        return {}
    known = {key.text for key, _ in node.entries}
    inner = Fields(node, {"rules": known}, fields.problems, "rules")
    found: dict[str, float] = {}
    for key in sorted(known):
        number = inner.read(key, None, _NUMBER, "40")
        try:
            found |= {} if number is None else {key: number}
            Rules.from_json({key: found.get(key, 0)})
        except ValueError as error:
            fields.problems.error(f"rules: {error}", inner.place(key), "correct it")
    return found


def _references(fields: Fields) -> Iterator[Reference]:
    seen: set[str] = set()
    for item in fields.mappings("references", "[{gpu: NVIDIA H200, ms: 5.4}]"):
        gpu = folder.needed(item, "gpu", folder.LINE, "NVIDIA H200")
        ms = folder.needed(item, "ms", _ABOVE_0, "5.4")
        band = item.read("band", Reference("", 0).band, _SHARE, "5%")
        if gpu in seen:
            item.problems.error(f"two references for {gpu}", item.place(), "keep one")
        if gpu is not None and ms is not None:
            seen.add(gpu)
            yield Reference(gpu, ms, band)


def _report(fields: Fields) -> Iterator[ReportItem]:
    """Parse the list; an item that shows several things is one item for each."""
    for item in fields.mappings("report", _REPORT):
        script = folder.needed(item, "script", folder.PATH, "m3.1.py")
        command = folder.needed(item, "command", folder.LINE, "python m3.1.py")
        shows = folder.listed(item, "shows", "[output, run time]", _SHOWS)
        images = folder.listed(item, "images", "[100, 1000]", _IMAGE_COUNT)
        variants = item.whole("variants", 1, "3")
        if not shows:
            item.error("", "shows nothing", "add `shows:` with a list")
        if images and command and IMAGES not in command:
            hint = f"put `{IMAGES}` where the number belongs"
            item.error("command", "says nothing of the number of images", hint)
        for size in images or (None,):
            line = (command or "").replace(IMAGES, str(size))
            for one in shows:
                yield ReportItem(one, script or "", line, size, variants)
