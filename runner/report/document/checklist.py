"""What a milestone's report must show: what is there, and how to get what is not."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner.core import Outcome, RunRecord
from runner.core.milestone import Milestone, ReportedKind, ReportItem
from runner.core.quantities import brief
from runner.core.work import NO_GPU_HERE
from runner.figures.table import NetworkFigures, numbered, program, script
from runner.report.blocks import Paragraph, Part, Table
from runner.report.document.nouns import CheckedItem, CheckedMilestone, Report, RunTime

WITH_GPU = "run where there is a GPU"
WITH_DATA = "bring the data files; docs/rai_build.md says where rai looks for them"
"""What to do about commands that the build file has."""

_GUESSED = " (no number was given)"


class _Evidence(Struct, frozen=True):
    """What speaks for an item: a run, and a few words; or why there is nothing.

    ``how`` is what to do about it where another run of the command would not help.
    """

    run: str = ""
    found: str = ""
    why: str = ""
    how: str = ""


def checked(report: Report, milestones: Sequence[Milestone]) -> Report:
    """Return a report with the check-lists of milestones."""
    found = tuple(
        CheckedMilestone(one.name, one.title, tuple(_items(report, one)))
        for one in milestones
    )
    return replace(report, milestones=found)


def concerning(
    milestones: Iterable[Milestone], records: Iterable[RunRecord]
) -> list[Milestone]:
    """Return the milestones whose programs the runs have, in the commands' order.

    Commands that ``--only`` left out do not count.
    """
    ran = [
        script(command.text)
        for record in records
        for command in record.first_round
        if not (record.only and command.outcome is Outcome.SKIPPED)
    ]
    places = {name: place for place, name in reversed(list(enumerate(ran)))}
    first: list[tuple[int, str, Milestone]] = []
    for one in milestones:
        found = [places[i.script] for i in one.report if i.script in places]
        first += [(min(found), one.name, one)] if found else []
    return [one for _, _, one in sorted(first, key=lambda each: each[:2])]


def _items(report: Report, milestone: Milestone) -> Iterator[CheckedItem]:
    folder = _folder(report)
    for item in milestone.report:
        every = list(_FINDERS[item.kind](report, item, milestone.images))
        there = [one for one in every if one.run]
        whys = [one.why for one in every if one.why]
        ran = [t for t in report.times if t.script == item.script]
        own = [t for t in ran if t.command == item.command.replace(PROJECT, folder)]
        how, numbers = _how(every, ran, own, item)
        if not there and not whys:
            whys = list(_unrun(own or ran, item)) or [_lacking(item)]
        yield CheckedItem(
            kind=item.kind,
            script=item.script,
            images=item.images,
            variants=item.variants,
            there=bool(there),
            runs=tuple(dict.fromkeys(one.run for one in there)),
            found=there[0].found if there else "",
            why="" if there else "; ".join(dict.fromkeys(whys)),
            how="" if there else how,
            numbers=() if there else numbers,
        )


def _how(
    found: Iterable[_Evidence],
    ran: Sequence[RunTime],
    own: Sequence[RunTime],
    item: ReportItem,
) -> tuple[str, tuple[int, ...]]:
    """Return what gives an item, and the commands of the build file that it is about.

    Of none it is a line for the build file.
    """
    if known := next((one.how for one in found if one.how), ""):
        return known, tuple(sorted({one.number for one in own or ran}))
    if not own:
        return item.command, ()
    numbers = tuple(sorted({one.number for one in own}))
    if all(map(_lacks_gpu, own)):
        return WITH_GPU, numbers
    return f"rai run -p . --only {numbers[0]}", numbers


def _lacks_gpu(ran: RunTime) -> bool:
    return ran.outcome is Outcome.SKIPPED and ran.why == NO_GPU_HERE


def _unrun(ran: Sequence[RunTime], item: ReportItem) -> Iterator[str]:
    """Yield why there is nothing of a program."""
    if not ran:
        yield f"no command runs {item.script}"
    alike: dict[str, list[int]] = {}
    for one in ran:
        if one.outcome is Outcome.SKIPPED:
            why = "needs a GPU" if _lacks_gpu(one) else one.why
            alike.setdefault(why or one.outcome, []).append(one.number)
        elif one.outcome in (Outcome.FAILED, Outcome.UNFINISHED):
            alike.setdefault(one.outcome, []).append(one.number)
    for why, numbers in alike.items():
        yield f"{why} ({numbered(numbers)})"


def _lacking(item: ReportItem) -> str:
    """Return what a program that ran well did not give."""
    match item.kind:
        case ReportedKind.KERNELS | ReportedKind.API_CALLS:
            return f"{item.script} did not run under a profiler that prints a table"
        case ReportedKind.TIMELINE | ReportedKind.ANALYSIS:
            return f"no profile of {item.script} is there to be read"
        case _ if item.images is not None:
            return f"{item.script} did not run on {item.images} images"
        case _:
            return f"{item.script} printed none"


def _output(report: Report, item: ReportItem, _: int) -> Iterator[_Evidence]:
    for one in report.outputs:
        if one.script == item.script and one.output and one.output.head.strip():
            yield _Evidence(one.run, f"of command {one.number}")


def _run_time(report: Report, item: ReportItem, _: int) -> Iterator[_Evidence]:
    for one in report.times:
        if one.script != item.script or one.outcome is not Outcome.OK:
            continue
        if one.under:
            yield _Evidence(why=f"only under {', '.join(one.under)}")
        elif one.elapsed_s is not None:
            yield _Evidence(one.run, f"{brief(one.elapsed_s)} (GNU time)")
        elif one.wall_s is not None:
            yield _Evidence(one.run, f"{brief(one.wall_s.median)} (rai)")


def _result(report: Report, item: ReportItem, usual: int) -> Iterator[_Evidence]:
    for run, figures, guessed in _networks(report, item, usual):
        found = [(one, getattr(one, item.kind.value)) for one in figures]
        known = {_work(one): share for one, share in found if share is not None}
        shares = sorted({f"{share:g}" for share in known.values()})
        if not known and any(one.synthetic for one in figures):
            why = "synthetic images: their agreement is no accuracy"
            yield _Evidence(why=why, how=WITH_DATA)
        else:
            yield from _counted(run, item, known, ", ".join(shares) + guessed)


def _op_times(report: Report, item: ReportItem, usual: int) -> Iterator[_Evidence]:
    for run, every, guessed in _networks(report, item, usual):
        timed = [(one, one.op_time_s.median) for one in every if one.op_time_s]
        plain = {_work(one): seconds for one, seconds in timed if not one.under}
        ends = dict.fromkeys(brief(f(plain.values())) for f in (min, max) if plain)
        if timed and not plain:
            yield _Evidence(why=f"only under {', '.join(timed[0][0].under)}")
        yield from _counted(run, item, plain, " to ".join(ends) + guessed)


def _work(one: NetworkFigures) -> tuple[str, str]:
    """Return what tells the networks of a program apart."""
    return one.model, one.variant


def _counted(
    run: str, item: ReportItem, known: Collection[tuple[str, str]], found: str
) -> Iterator[_Evidence]:
    """Yield the evidence of the models and variants that are known."""
    models = {model for model, _ in known}
    variants = {variant for _, variant in known}
    if len(variants) >= item.variants:
        counts = ((len(variants), "variants"), (len(models), "models"))
        many = [f"{n} {of}" for n, of in counts if n > 1]
        yield _Evidence(run, ", ".join((found, *many)))
    elif known:
        yield _Evidence(why=f"{len(variants)} of {item.variants} variants")


def _networks(
    report: Report, item: ReportItem, usual: int
) -> Iterator[tuple[str, list[NetworkFigures], str]]:
    """Yield by run what a script's network printed for a number of images.

    A script that is given no number takes the ``usual`` one.
    """
    for run in report.runs:
        of_script = [
            one
            for one in report.networks
            if (one.run, one.script) == (run.run, item.script)
        ]
        exact = [one for one in of_script if item.images in (None, one.images)]
        if exact:
            yield run.run, exact, ""
        elif item.images == usual:
            yield run.run, [n for n in of_script if n.images is None], _GUESSED


def _shares(report: Report, item: ReportItem, _: int) -> Iterator[_Evidence]:
    for one in report.shares:
        if one.script == item.script and one.kind is item.kind:
            reached = one.rows[-1].reached_percent if one.rows else 0.0
            rows = "1 takes" if len(one.rows) == 1 else f"{len(one.rows)} take"
            yield _Evidence(one.run, f"{rows} {reached:.2f} %")


def _timeline(report: Report, item: ReportItem, _: int) -> Iterator[_Evidence]:
    for one in report.traces:
        if one.script == item.script and one.trace.spans:
            yield _Evidence(one.run, one.trace.path)


def _analysis(report: Report, item: ReportItem, _: int) -> Iterator[_Evidence]:
    files = {(t.run, t.trace.path) for t in report.traces if t.script == item.script}
    for one in report.analysis:
        rated = [
            kernel
            for kernel in one.kernels
            if (one.run, kernel.trace) in files and (kernel.flops or kernel.bytes)
        ]
        if rated:
            yield _Evidence(one.run, f"rates of {len(rated)} kernels")
        elif any((one.run, kernel.trace) in files for kernel in one.kernels):
            yield _Evidence(why="rai-kernels.json says nothing of its kernels")


_FINDERS: dict[
    ReportedKind, Callable[[Report, ReportItem, int], Iterator[_Evidence]]
] = {
    ReportedKind.OUTPUT: _output,
    ReportedKind.RUN_TIME: _run_time,
    ReportedKind.ACCURACY: _result,
    ReportedKind.CORRECTNESS: _result,
    ReportedKind.OP_TIMES: _op_times,
    ReportedKind.KERNELS: _shares,
    ReportedKind.API_CALLS: _shares,
    ReportedKind.TIMELINE: _timeline,
    ReportedKind.ANALYSIS: _analysis,
}

ANCHORS = {
    ReportedKind.OUTPUT: "output",
    ReportedKind.RUN_TIME: "run-times",
    ReportedKind.ACCURACY: "op-times-and-correctness",
    ReportedKind.CORRECTNESS: "op-times-and-correctness",
    ReportedKind.OP_TIMES: "op-times-and-correctness",
    ReportedKind.KERNELS: "kernels",
    ReportedKind.API_CALLS: "api-calls",
    ReportedKind.TIMELINE: "timelines",
    ReportedKind.ANALYSIS: "analysis-by-kernel",
}
"""The section that shows each kind of item."""

_NAMES = {
    ReportedKind.OP_TIMES: "Op Times",
    ReportedKind.KERNELS: "kernels over 90 %",
    ReportedKind.API_CALLS: "API calls over 90 %",
}


def parts(report: Report) -> Iterator[Part]:
    """Yield one table of all check-lists, and what to do about what is missing."""
    every = [(one, item) for one in report.milestones for item in one.items]
    if not every:
        return
    counts = (
        f"{one.name}: {sum(item.there for item in one.items)} of {len(one.items)}"
        for one in report.milestones
    )
    yield Paragraph(f"{', '.join(counts)} items are there.")
    heads = ("milestone", "item", "script", "status", "value")
    rows = tuple(_row(one.name, item) for one, item in every)
    links = tuple(ANCHORS[item.kind] if item.there else "" for _, item in every)
    yield Table("", heads, rows, anchors=links, linked=1)
    yield from _advice(report, [item for _, item in every if not item.there])


def _row(milestone: str, item: CheckedItem) -> tuple[str, ...]:
    images = "" if item.images is None else f" {item.images}"
    variants = f", {item.variants} variants" if item.variants > 1 else ""
    of = f"{item.script}{images}{variants}"
    status = "there" if item.there else "missing"
    name = _NAMES.get(item.kind, item.kind.value)
    return (milestone, name, of, status, item.found or item.why)


def _advice(report: Report, missing: Iterable[CheckedItem]) -> Iterator[Part]:
    """Yield what to do about commands that are there, and what lines to add."""
    lines: dict[str, str] = {}
    alike: dict[str, list[int]] = {}
    folder = _folder(report)
    for item in missing:
        if item.numbers:
            alike.setdefault(item.how, []).extend(item.numbers)
        else:
            lines[item.how.replace(PROJECT, folder)] = item.why
    for how, numbers in alike.items():
        # Without a full stop, which would seem to belong to a command line.
        yield Paragraph(f"{numbered(numbers).capitalize()}: {how}")
    if lines:
        title = "Lines for the build file that give the rest"
        yield Table(title, ("command", "why it is missing"), tuple(lines.items()))


PROJECT = "$RAI_SOURCE_DIR/project/"
"""Where the lines of the milestones' files look for a program."""


def _folder(report: Report) -> str:
    """Return the folder in which most commands of the runs find their programs."""
    found = (program(one.command) for one in report.times)
    folders = Counter(posixpath.dirname(p) for p in found if p.endswith(".py"))
    if not folders:
        return PROJECT
    folder = folders.most_common(1)[0][0]
    return f"{folder}/" if folder else ""
