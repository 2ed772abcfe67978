"""Runs for the tests of reports; the figures are made up."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import (
    CommandRecord,
    Findings,
    Inference,
    ProfileRow,
    ProfileTable,
    RunRecord,
    Source,
    TimeUsage,
)
from runner.core.evidence import OutputEnds, RunEvidence
from tests.kit import records

SCRIPTS = "python $RAI_SOURCE_DIR/project"


def inference(
    images: int | None = None, variant: str = "", times: tuple[float, ...] = (0.25, 0.5)
) -> Inference:
    source = Source(variant=variant, batch_size=images)
    return Inference(times, 0.85, "net", source=source)


def command(
    index: int,
    script: str,
    *inferences: Inference,
    before: str = "/usr/bin/time",
    profiles: tuple[ProfileTable, ...] = (),
    under: tuple[str, ...] = (),
    **facts,
) -> CommandRecord:
    usage = (TimeUsage(1.5, 0.25, 1.75, 100, 1024),) if "time" in before else ()
    inferences = tuple(
        replace(one, source=replace(one.source, under=under)) for one in inferences
    )
    found = Findings(inferences, usage, profiles, under=under)
    facts = {"wall_s": 2.0, "cpu_s": 1.75, "findings": found} | facts
    return records.command(index, f"{before} {SCRIPTS}/{script}", **facts)


def run(*commands: CommandRecord, name: str = "0123456789", **facts) -> RunRecord:
    return records.ended(name, *commands, **facts)


def evidence(record: RunRecord, **facts) -> RunEvidence:
    outputs = {c.index: OutputEnds(f"printed by {c.index}") for c in record.first_round}
    return RunEvidence(record, outputs=outputs, **facts)


def table(section: str, *percents: float) -> ProfileTable:
    rows = tuple(
        ProfileRow(f"row{n}", percent, percent / 100, 2, percent / 200, 0.001, 0.002)
        for n, percent in enumerate(percents)
    )
    return ProfileTable("nvprof", section, rows)
