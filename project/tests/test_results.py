"""RESULTS.md, made of measured rows."""

import itertools

import bench
import pytest
import results
from bench import Bench
from course import editions
from course.variants import Launch, Variant
from lab import code_hash, goals, ledger, measurement, trials
from plans.kernels import VARIANTS

MINUTES = itertools.count()
HOPPER = "NVIDIA H200"


def row(variant="tiled", layer="conv1", ms=1.0, **more):
    """A right row of fp32; what is given replaces what it says."""
    minute = f"{next(MINUTES):06}"
    known = {
        "what": "convolution",
        "variant": variant,
        "class": "fp32",
        "edition": "2019fa",
        "model": "ece408",
        "layer": layer,
        "images": 10_000,
        "shape": {"B": 1, "C": 2, "H": 7, "W": 8, "M": 3, "K": 5},
        "wide": False,
        "ok": True,
        "why": None,
        "arithmetic": "split",
        "error": 1e-7,
        "by_element": 2e-7,
        "median_ms": ms,
        "mhz": [1800.0, 1700.0, 1900.0],
        "model_bytes_ms": 0.25,
        "model_flops_ms": 0.5,
        "peer": {"median_ms": 4 * ms, "mhz": [1500.0, 1400.0, 1600.0]},
        "times_peer": 4.0,
        "machine": {
            "gpu": HOPPER,
            "uuid": "GPU-1",
            "driver": "580",
            "compiler": "nvcc 13",
            "peer": "cuDNN 9",
            "sm_mhz_max": 1980.0,
            "celsius": 45.0,
            "others": 0,
        },
        "rates": {"copy_gbps": 4200.0, "fma_tflops": 65.0, "half_tflops": 700.0},
        "commit": "abc",
        "run": "r",
        "at": f"2026-01-01T{minute}",
    }
    return {**known, **more}


def wrong(variant="tiled", layer="conv1", why="the error is 1, over 1e-06", **more):
    """A row without a time."""
    timeless = row(variant, layer, ok=False, why=why, **more)
    timed = ("median_ms", "mhz", "peer", "times_peer")
    return {key: value for key, value in timeless.items() if key not in timed}


def both(variant="tiled", ms=(1.0, 2.0), **more):
    return [
        row(variant, layer, t, **more)
        for layer, t in zip(trials.LAYERS, ms, strict=True)
    ]


def plan(shape, params):
    return (Launch("conv", (1, 1, 1), (1, 1, 1), ("y", "x", "k")),)


LADDER = {
    "naive": Variant("naive", "plain", plan),
    "tiled": Variant("tiled", "shared tiles", plan, after="naive"),
}


def ladder_cells(rows):
    _, *lines = results.ladder_table(goals.results(rows), LADDER)
    # A variant that has a page is a link to it.
    return {line[1].split("`")[1]: line[4:] for line in lines}


def test_the_last_row_of_each_kind_counts_wherever_it_stands():
    rows = [row(ms=1.0), row(ms=2.0), row(ms=3.0, layer="conv2"), row(ms=4, images=7)]
    for kept in (rows, rows[::-1]):
        assert {r["median_ms"] for r in ledger.latest(kept, HOPPER)} == {2, 3, 4}


def test_what_was_measured_elsewhere_does_not_count():
    kept, other = row(), row(ms=9.0, machine={"gpu": "another"})
    assert ledger.latest([kept, other], HOPPER) == [kept]


def test_rows_that_are_not_shown_are_removed(tmp_path):
    rows = [row(ms=1.0), row(ms=3.0), row(ms=4.0, images=7)]
    other = row(ms=5.0, machine={"gpu": "other"})
    for kept in (*rows, other):
        ledger.keep(kept, tmp_path / ledger.file(kept["machine"]["gpu"]).name)

    ledger.keep_only([*rows[1:], other], tmp_path)

    left = {r["median_ms"] for r in ledger.read(tmp_path)}
    assert left == {3.0, 4.0, 5.0}


def test_a_wrong_variant_stays_with_its_reason_and_a_missing_one_without():
    cells = ladder_cells([row("tiled"), wrong("tiled", "conv2", "too odd")])
    assert cells["tiled"] == [*("1.000", *("–",) * 7, "no: conv2: too odd")]
    assert cells["naive"] == [*("–",) * 8, "not measured"]
    assert ladder_cells([row("tiled")])["tiled"][-1] == "no: conv2: not measured"


def verdict(name, rows):
    (found,) = (v for v in goals.verdicts(rows) if v.name == name)
    return found.verdict


NO_PEER = {"peer": None, "times_peer": None}
GOALS = [
    ("fp32", both(ms=(0.5, 0.6), peer={"median_ms": 5.4}), "reached"),
    (
        "fp32",
        both(ms=(0.616, 0.616), peer={"median_ms": 6.0}),
        "missed: 10% over the time",
    ),
    ("fp32", both(ms=(0.5, 0.5), peer={"median_ms": 4.0}), "missed: 8.00 of 9 times"),
    ("fp32", both(ms=(0.1, 0.1), **NO_PEER), "missed: cuDNN is not measured"),
    ("fp32, every edition", both(ms=(0.1, 0.1), **NO_PEER), "not measured"),
    ("fp32, 100 images", both(ms=(0.010, 0.012), images=100), "reached"),
    (
        "fp32, 1000 images",
        both(ms=(0.010, 0.012), images=1000, peer={"median_ms": 0.0099}),
        "missed: 0.90 of 1 times",
    ),
]


@pytest.mark.parametrize(("name", "rows", "said"), GOALS)
def test_a_goal_is_a_time_and_a_ratio(name, rows, said):
    assert verdict(name, rows) == said


def test_a_vendor_that_is_faster_in_another_layout_is_told_of_both():
    peer = {"median_ms": 2.0, "medians_ms": {"NHWC": 2.0, "NCHW": 4.5}}
    rows = both(ms=(0.5, 0.5), peer=peer)
    assert "4.00 times cuDNN (9.00 in NCHW)" in goals.verdicts(rows)[0].reached
    assert verdict("fp32", rows) == "missed: 4.00 of 9 times"
    peer["medians_ms"]["NCHW"] = 2.1
    assert "NCHW" not in goals.verdicts(rows)[0].reached


def test_a_goal_takes_the_fastest_right_result_of_its_own_class():
    rows = both("naive", (0.5, 0.6), peer={"median_ms": 9})
    rows += both("tiled", (0.4, 0.4), peer={"median_ms": 9}, **{"class": "tf32"})
    rows += [row("x", ms=0.1), wrong("x", "conv2")]
    fp32, fma, tf32, half, small, _ = (
        goals.judge(g, goals.results(rows)) for g in goals.GOALS
    )
    assert "`naive`" in fp32.reached and fp32.verdict == "reached"
    assert "`tiled`" in tf32.reached
    assert {half.verdict, fma.verdict, small.verdict} == {"not measured"}


def test_numbers_that_every_kernel_leaves_to_its_slow_path_are_told_apart():
    steady = {"median_ms": 1.25, "mhz": [1400.0, 1390.0, 1410.0]}
    triton = {"median_ms": 3.0, "mhz": [1600.0] * 3, "error": 3e-7, "by_element": 1e-6}
    rows = both("best", back_to_back=steady, triton=triton)
    rows += both("best", ms=(30.0, 40.0), wide=True, peer=None, times_peer=None)

    assert goals.results(rows)[0].ms == 3.0
    shown = {tuple(line[1:3]): line[3:] for line in results.turns_table(rows)[1:]}
    assert len(shown) == 6
    assert shown["`best`", "conv2"] == [
        *("2.000", "1800", "1.250", "1400", "1500", "1.0e-07", "2.0e-07")
    ]
    slow = shown["`best`, every image left to the slow path", "conv1"]
    assert slow[:5] == ["30.000", "1800", "–", "–", "–"]
    assert shown["Triton's `tl.dot`, tf32x3", "conv1"][0] == "3.000"


def test_it_is_told_what_serves_where_and_where_that_is_measured():
    machine = {"gpu": HOPPER, "architecture": "sm_90"}
    rows = [row("best", part="best_one", machine=machine)]

    _, *serving = results.serving_table(rows)
    _, *parts = results.parts_table(rows)

    assert len({tuple(line[:2]) for line in serving}) == len(serving)
    (hopper,) = (line for line in serving if line[0] == "fp32" and "sm_90" in line[1])
    assert hopper[2] == "`best_one`" and hopper[-1] == HOPPER
    assert all(line[-1] == "–" for line in serving if "sm_90" not in line[1])
    (one,) = (line for line in parts if line[:2] == ["`best_one`", "fp32"])
    assert "one input channel" in one[4] and one[5:] == ["at most 4e-06", HOPPER]
    (tf32,) = (line for line in parts if line[:2] == ["`best_one`", "tf32"])
    assert tf32[5:] == ["–", "–"]


def test_a_kernel_without_tensor_cores_has_a_goal_of_its_own():
    rows = [*both("a", (0.5, 0.5)), *both("b", (1, 1), arithmetic="fma")]
    rows[-1]["arithmetic"] = "split"
    assert verdict("fp32, FMA only", rows) == "not measured"
    rows[-1]["arithmetic"] = "fma"
    assert verdict("fp32, FMA only", rows) == "reached"


def test_the_time_per_image_must_stay():
    def rows(last):
        each = {1000: 0.01, 10_000: 0.1, 40_000: last}
        return [r for n, ms in each.items() for r in both(ms=(ms, ms), images=n)]

    assert verdict("fp32, batch sizes", rows(0.41)) == "reached"
    assert verdict("fp32, batch sizes", rows(0.48)) == "missed: 20% apart"
    assert verdict("fp32, batch sizes", rows(0.4)[:-2]) == "not measured"


def test_every_layer_of_every_edition_must_be_ahead():
    rows = [
        row(layer=la.name, edition=la.edition, model=la.model)
        for edition in editions.EDITIONS.values()
        for la in trials.layers(edition)
    ]
    assert verdict("fp32, every edition", rows) == "reached"
    assert "not measured" in verdict("fp32, every edition", rows[:-1])
    rows[0]["times_peer"] = 2.9
    assert verdict("fp32, every edition", rows) == "missed: less on 1 of 11 layers"
    assert len(results.edition_table(rows)) == 1 + len(rows)


WHOLE, SMALL = (f"forward pass, fp32, {n} images" for n in (10_000, 100))


def forward(ms=1.0, name="ours", peer=9.0, **more):
    ours, theirs = measurement.spread([ms], [1700.0]), measurement.spread([peer])
    times = ours.figures() | measurement.compared(ours, {"eager, NCHW": theirs})
    made = row(what="forward", variant=name, layer=None) | times | more
    return {key: value for key, value in made.items() if key != "shape"}


def test_the_forward_pass_is_held_against_pytorchs_fastest_way():
    made = forward()
    assert verdict(WHOLE, [forward(ms=0.9)]) == "reached"
    assert verdict(WHOLE, [forward(ok=False)]) == "not measured"
    missed = verdict(WHOLE, [forward(peer=7.5)])
    assert missed == "missed: 5% over the time, 7.50 of 8 times"
    assert verdict(SMALL, [made]) == "not measured"
    assert verdict(SMALL, [forward(images=100)]) == "reached"
    assert verdict(SMALL, [forward(peer=2, images=100)]) == "missed: 2.00 of 3 times"
    assert results.forward_table([made])[1][2:] == [
        *("1.000", "1700", "1.0e-07", "9.000", "eager, NCHW", "9.00", "yes")
    ]
    failed = forward(ok=False, why="wrong")
    assert results.forward_table([failed])[1][-1] == "no: wrong"


def test_layers_folded_into_one_do_not_reach_the_goal():
    folded = forward(peer=90.0, name="ours, folded")
    assert verdict(WHOLE, [folded]) == "not measured"
    assert "7.00" in verdict(WHOLE, [folded, forward(peer=7.0)])


class Nowhere:
    """A laboratory in which nothing is measured."""

    def facts(self):
        return {"gpu": HOPPER}


def script(ms, last="Correctness: 0.8898 Model: ece408"):
    run = Bench(Nowhere(), measurement.Rates(1, 1, 1), measurement.FULL, 1)
    return run.script("final.py", measurement.spread([ms] * 5), last)


def test_a_scripts_whole_time_is_a_goal():
    assert verdict("final.py 10000", [script(475.0)]) == "reached"
    assert verdict("final.py 10000", [script(550.0)]) == "missed: 10% over the time"
    failed = script(1.0, last="")
    assert "median_ms" not in failed
    assert verdict("final.py 10000", [failed]) == "not measured"
    assert "Correctness" in bench.line(script(5.0)) and "failed" in bench.line(failed)


def test_a_page_of_no_rows_can_be_made():
    assert "not measured" in results.page([])


@pytest.mark.smoke
def test_what_is_shown_was_measured_with_the_code_that_is_here():
    stale = code_hash.stale(ledger.read())
    again = "\n".join(dict.fromkeys(map(code_hash.again, stale)))
    assert not stale, f"measure again, or run project/results.py --drop:\n{again}"


@pytest.mark.smoke
def test_the_pages_of_people_say_what_was_measured():
    found = goals.results(ledger.latest(ledger.read(), results.GPU))
    fp32, tf32 = (
        goals.fastest(found, next(g for g in goals.GOALS if g.name == name))
        for name in ("fp32", "tf32")
    )
    readme = " ".join((results.ROOT / "README.md").read_text().split())
    assert (
        f"take {goals.duration(fp32.ms)} for both layers and 10,000 images in fp32, "
        f"{fp32.times:.1f} times as fast as cuDNN, and {goals.duration(tf32.ms)} in "
        "tf32:"
    ) in readme


@pytest.mark.parametrize("name", VARIANTS)
def test_the_page_of_a_variant_says_what_was_measured(name):
    page = results.PLOTS / f"{name}.md"
    (found,) = (
        r
        for r in goals.results(ledger.latest(ledger.read(), results.GPU))
        if (r.variant, r.images) == (name, trials.IMAGES)
    )
    both = " + ".join(f"{row['median_ms']:.3f}" for row in found.rows)
    said = [f": {both} = {found.ms:.3f} ms", f"**Gain.** {found.times:.2f} times cuDNN"]
    assert name == "per_layer" or any(text in page.read_text() for text in said)


@pytest.mark.smoke
def test_what_is_shown_is_what_was_measured():
    made = results.page(list(ledger.read()))
    assert results.PAGE.read_text() == made, "run: make results"
