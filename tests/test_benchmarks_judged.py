"""Measurements of honest variants, pooled."""

from __future__ import annotations

import json
from random import Random

from tests.kit import judge_cases as made
from tools.benchmarks import judged


def kept(folder, number: int, *entries: dict) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.json").write_text(json.dumps(made.measurement(*entries)))


def entry(variant: str, seed: int, *why: str, faster: float = 1.0) -> dict:
    found = made.samples(Random(seed), faster=faster)
    return made.entry(found, why) | {"variant": variant}


def test_the_spread_the_order_and_the_refusals_are_of_all_files(tmp_path, capsys):
    for day in range(2):
        for n in range(5):
            seed = 10 * day + n
            second = entry("second", 100 + seed, faster=0.985)
            kept(tmp_path / f"day{day}", n, entry("best", seed), second)
    (tmp_path / "notes.json").write_text("[]")

    rows = {row["bench"]: row for row in judged.pooled(judged.read(tmp_path))}

    assert rows["refusals of honest variants"]["measured"] == 20
    assert rows["ratio of best"]["measurements"] == 10
    assert rows["order of best and the same, 1% faster"]["right"] >= 95
    assert rows["order of best and second"]["apart"] > 0.01
    assert all(row["ok"] for row in rows.values()), rows
    assert "notes.json" in capsys.readouterr().err


def test_what_was_refused_is_counted_with_its_reason_and_is_in_no_ratio(tmp_path):
    kept(tmp_path, 0, entry("best", 1))
    kept(tmp_path, 1, entry("best", 2, "the GPU was at 78 °C"))
    kept(tmp_path, 2, entry("best", 3))

    rows = {row["bench"]: row for row in judged.pooled(judged.read(tmp_path))}

    refusals = rows["refusals of honest variants"]
    assert (refusals["ok"], refusals["refused"]) == (False, 1)
    assert refusals["why"] == ["best: the GPU was at 78 °C"]
    assert rows["ratio of best"]["measurements"] == 2


def test_a_ratio_that_wanders_from_day_to_day_is_seen(tmp_path):
    for n in range(10):
        kept(tmp_path, n, entry("best", n, faster=1 + 0.01 * n))

    rows = {row["bench"]: row for row in judged.pooled(judged.read(tmp_path))}

    assert rows["ratio of best"]["ok"] is False
    assert rows["order of best and the same, 1% faster"]["ok"] is False
