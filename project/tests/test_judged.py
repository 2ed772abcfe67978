"""The judge's rows, and the columns of RESULTS.md that they give."""

import json

import judged
import plan
import results
from lab import code_hash, goals, ledger
from plans.kernels import VARIANTS

from project.tests.test_results import HOPPER, LADDER, both
from tools.benchmarks import judge_ladder

CHOICE = plan.Choice()


def entry(variant="tiled", **more):
    layer = {"ms": 0.5, "reference_ms": 2.0, "sm_mhz": [1900.0, 1950.0, 1980.0]}
    known = {
        "variant": variant,
        "accepted": True,
        "why": [],
        "error": 2e-7,
        "ms": 3.15,
        "ratio": 0.21,
        "interval": [0.209, 0.211],
        "layers": [{"name": "conv1", **layer}, {"name": "conv2", **layer}],
        "samples": [
            {"layer": name, "round": n}
            for n in range(20)
            for name in ("conv1", "conv2")
        ],
    }
    return {**known, **more}


def refused(variant, *why):
    no_score = {"ms": None, "ratio": None, "interval": None}
    nothing = {"layers": [], "samples": [], **no_score}
    return entry(variant, accepted=False, why=list(why), **nothing)


def measurement(*entries):
    return {
        "version": 1,
        "class": "fp32",
        "architecture": "sm_90",
        "gpu": {"name": HOPPER, "uuid": "GPU-1", "driver": "580", "sm_mhz_max": 1980.0},
        "celsius": [40.0, 45.0],
        "others": 0,
        "entries": list(entries),
    }


def rows(*entries):
    return list(judged.rows(measurement(*entries), CHOICE, "run"))


def test_a_measurement_gives_a_row_of_each_variant():
    first, second = rows(entry(), refused("naive", "y differs", "too hot"))

    assert (first["what"], first["variant"], first["class"]) == (
        *("judged", "tiled", "fp32"),
    )
    assert (first["ok"], first["ms"], first["ratio"], first["n"]) == (
        *(True, 3.15, 0.21, 20),
    )
    assert (first["edition"], first["images"]) == ("2019fa", 10_000)
    assert first["machine"]["gpu"] == HOPPER
    assert (first["mhz"], second["mhz"]) == ([1950, 1900, 1980], None)
    assert (second["ok"], second["why"]) == (False, "y differs; too hot")


def cells(kept):
    head, *lines = results.ladder_table(
        goals.results(kept), LADDER, judged.by_variant(kept)
    )
    first = head.index("judged ms")
    return {line[1].split("`")[1]: line[first : first + 2] for line in lines}


def test_a_judged_time_stands_beside_the_sum_with_its_difference():
    kept = [*both("tiled", (1.0, 2.0)), *both("naive", (5, 5)), *rows(entry())]
    assert cells(kept) == {"tiled": ["3.150", "+5.0%"], "naive": ["–", "–"]}


def test_a_variant_that_the_judge_refuses_has_its_reasons_below_the_table():
    kept = [*both("tiled"), *rows(refused("tiled", "y differs"))]

    assert cells(kept)["tiled"] == ["refused", "–"]
    page = results.page(kept)
    assert "* The judge does not accept `tiled`: y differs\n" in page


def test_rows_are_appended_to_those_of_their_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "FOLDER", tmp_path / "kept")
    judge_ladder.planned("sm_90", tmp_path / "plan.json")
    (tmp_path / "fp32-1").mkdir()
    (tmp_path / "fp32-1" / "job.json").touch()
    text = json.dumps(measurement(*map(entry, VARIANTS)))
    (tmp_path / "fp32-1" / "measurement.json").write_text(text)

    for _ in range(2):
        judge_ladder.keep(tmp_path)

    kept = list(ledger.read(tmp_path / "kept"))
    assert [row["variant"] for row in kept] == [*VARIANTS, *VARIANTS]
    assert code_hash.stale(kept) == []
    assert ledger.file(HOPPER).name == "nvidia-h200.jsonl"
