"""The benchmark without a GPU: what it chooses, when it stops, what its rows say."""

import itertools
import json
import sys
from contextlib import contextmanager

import bench
import numpy as np
import pytest
from bench import Bench
from compile import usages
from course import editions
from course.errors import GpuError, ProjectError, UsageError
from course.shapes import ConvShape
from course.variants import Launch, Variant
from gpu import compiler
from lab import bench_gpu, float64, gpu_facts, measurement, script_time, trials
from lab.float64 import Errors
from lab.measurement import FMA, FULL, HALF, SPLIT, Rates, Sample
from lab.trials import Trial
from plans.kernels import VARIANTS

CONV2 = ConvShape(10_000, 24, 12, 33, 33, 5)
RATES = Rates(4000, 60, 600)
SMI = "NVIDIA H200, GPU-1, 580.1, 1980, 45"


class Watch:
    """Tells each way's times, and what was timed in which order."""

    def __init__(self, **times):
        self.times = {name: itertools.cycle(ms) for name, ms in times.items()}
        self.ways = {name: (lambda name=name: name) for name in times}
        self.order = []

    def sample(self, way):
        self.order.append(way() or "burst")
        return Sample(next(self.times[self.order[-1]]), 1700.0)


def taken(*ms):
    return [Sample(each, 1980.0) for each in ms]


def ticking(step=0.0):
    return itertools.count(0.0, step).__next__


def test_samples_do_when_there_are_twenty_and_their_mean_is_known_within_one_percent():
    assert not FULL.enough(taken(1.0) * 19, 9)
    assert FULL.enough(taken(1.0) * 20, 0)
    assert not FULL.enough(taken(1.0, 2.0) * 20, 9.9)
    assert FULL.enough(taken(1.0, 2.0) * 20, 10)
    assert FULL.enough(taken(1.0, 1.01) * 20, 0)


def test_a_way_is_warm_when_two_medians_agree():
    assert not FULL.settled(taken(1.0) * 9)
    assert FULL.settled(taken(9.0) * 3 + taken(1.0) * 10)
    assert not FULL.settled(taken(1.1) * 5 + taken(1.0) * 5)
    assert FULL.settled(taken(1.01) * 5 + taken(1.0) * 5)


def test_ways_are_timed_in_turns_and_what_warms_them_up_does_not_count():
    cold = [9.0, 8.0, 5.0, 3.0, 2.0]
    watch = Watch(ours=[*cold, *[1.0] * 1000], peer=[2.0])

    times = measurement.alternate(watch.ways, watch.sample, FULL, ticking())

    assert watch.order == ["ours", "peer"] * (len(watch.order) // 2)
    assert (times["ours"].median_ms, times["ours"].max_ms) == (1, 1)
    assert len(watch.order) == 2 * (15 + 20)
    assert (times["ours"].n, times["peer"].n) == (20, 20)


def test_what_never_settles_is_timed_at_last_and_says_how_wide_it_spreads():
    watch = Watch(ours=[1.0, 3.0, 8.0])

    times = measurement.alternate(watch.ways, watch.sample, FULL, ticking(0.5))["ours"]

    assert (times.min_ms, times.median_ms, times.max_ms) == (1, 3, 8)
    assert times.n >= 20
    assert times.mhz == (1700, 1700, 1700)
    assert times.err_ms == pytest.approx(
        np.std([1, 3, 8] * 7, ddof=1) / np.sqrt(times.n), rel=0.1
    )


def test_calls_back_to_back_are_timed_in_bursts_and_the_first_ones_heat():
    began = []
    lengths = itertools.chain([4.0], [400.0] * 5, itertools.repeat(250.0))

    def sample(way):
        before = len(began)
        way()
        return Sample(next(lengths), 1500.0 - len(began) + before)

    times = measurement.back_to_back(lambda: began.append(1), sample)

    assert len(began) == 1 + 10 * 50
    assert (times.median_ms, times.n) == (5, 5)
    assert times.mhz == (1450, 1450, 1450)


def test_a_clock_is_the_cycles_between_the_stamps_of_those_that_have_both():
    before = np.array([[1000, 5], [1010, 7], [0, 0], [990, 1]], np.uint64)
    after = np.array([[2000, 1605], [2010, 1407], [1000, 9], [0, 0]], np.uint64)

    assert measurement.mhz(before, after) == 1500
    assert measurement.mhz(0 * before, after) == 0


def test_by_the_model_a_convolution_takes_its_bytes_or_its_products():
    assert measurement.flops(CONV2) == 2 * 10_000 * 24 * 29 * 29 * 12 * 25
    assert measurement.moved_bytes(CONV2) == 4 * (
        10_000 * (12 * 33 * 33 + 24 * 29 * 29) + 24 * 12 * 25
    )
    (fma_bytes, fma), (split_bytes, split), (half_bytes, half) = (
        measurement.modelled(CONV2, kind, stored, RATES).values()
        for kind, stored in ((FMA, 4), (SPLIT, 4), (HALF, 2))
    )
    assert fma == pytest.approx(121.1e9 / 60e12 * 1e3, rel=1e-3)
    assert split == pytest.approx(3 * half, rel=1e-4)
    assert half < half_bytes < split_bytes == fma_bytes


def errors(wrong=0.0, worst=0.0, missing=0):
    """The errors of two images, of which the second is right."""
    return Errors(
        *(np.array([n, r]) for n, r in ((2 * wrong**2, 0), (1, 1))),
        *(np.array([n, 0]) for n in (worst, missing)),
    )


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (errors(1e-6, 4e-6), None),
        (errors(1.1e-6), "the error is 1.1e-06, more than 1e-06"),
        (errors(1e-9, missing=3), "3 elements are not written, or not finite"),
        (
            errors(1e-9, 1e-3),
            "an element is wrong by 1.0e-03 of its sum |x||k|, more than 4e-06",
        ),
    ],
)
def test_a_result_is_right_or_it_is_said_why_not(found, why):
    assert found.fault(Variant("one", "", plan)) == why


@pytest.mark.parametrize("other", [{"elementwise": False}, {"accuracy": "tf32"}])
def test_an_element_may_be_wrong_where_a_variant_does_not_promise_it(other):
    found = errors(1e-9, 1e-3)
    assert found.fault(Variant("one", "", plan, **other)) is None
    assert found.by_element == 1e-3


def test_an_error_is_relative_to_the_whole_and_to_each_image():
    found = Errors(*np.array([[1, 8, 0], [4, 4, 0], [0, 0, 0], [0, 0, 0]], float))
    assert found.norm == pytest.approx((9 / 8) ** 0.5)
    assert found.norms == pytest.approx([0.5, 2**0.5, 0])


def test_the_whole_programme_has_every_variant_size_and_edition():
    chosen = trials.programme()

    main = [t for t in chosen if t.layer.edition == "2019fa" and t.images == 10_000]
    main = [t for t in main if not t.wide]
    assert [t.layer.name for t in main] == ["conv1", "conv2"]
    assert all([v.name for v in t.variants] == list(VARIANTS) for t in main)
    assert {t.images for t in chosen} == {100, 1000, 10_000, 40_000}
    assert {t.layer.edition for t in chosen} == set(editions.EDITIONS)
    wide = [t for t in chosen if t.wide]
    assert [(t.layer.name, t.variants[0].name) for t in wide] == [
        *(("conv1", "best"), ("conv2", "best"))
    ]


def test_the_command_line_narrows_the_programme():
    found = trials.narrowed(
        ["naive", "tiled"], layer="conv2", images=[7, 9], edition="2018fa"
    )

    assert [t.images for t in found] == [7, 9]
    assert {t.layer.name for t in found} == {"conv2"}
    assert {t.shape.B for t in found} == {7, 9}
    assert [v.name for v in found[0].variants] == ["naive", "tiled"]


def test_what_is_unknown_is_refused():
    with pytest.raises(UsageError, match="unknown variant `x`"):
        trials.narrowed(["x"])
    with pytest.raises(UsageError, match="none of these variants is in class half"):
        trials.narrowed(["naive"], "half")
    with pytest.raises(UsageError, match="unknown edition `2020`"):
        trials.narrowed(edition="2020")


def plan(shape, params):
    return (Launch("conv", (1, 1, 1), (params["A"], 1, 1), ("y", "x", "k")),)


class Lab(Watch):
    """Stands for a GPU: what each variant does wrong is told beforehand."""

    def __init__(self, *, peers=("NCHW", "NHWC"), broken=(), **times):
        super().__init__(**times)
        self._peers, self._broken = peers, dict(broken)
        self.checks = 0

    def facts(self):
        return {"gpu": "none"}

    def nothing(self):
        return "ours"

    @contextmanager
    def case(self, trial, seed):
        if error := self._broken.get("case"):
            raise error
        yield self

    def part(self, variant):
        self.variant = variant.name
        if variant.name == "refuses":
            raise UsageError("refuses does not support this: too odd")
        return variant

    def ours(self, part):
        if error := self._broken.get(part.name):
            raise error
        return self.ways["ours"]

    def check(self, way):
        self.checks += 1
        if self.variant == "racing":
            return errors(0.5 * (self.checks == 2))
        wrong = {"wrong": errors(0.5), "lazy": errors(missing=9)}
        return wrong.get(self.variant, errors(1e-7, 2e-7))

    def peers(self, part):
        return {name: self.ways[name] for name in self._peers}

    def peer_check(self, way):
        return errors(2e-7, 3e-7)

    def triton(self):
        return self.ways.get("Triton")


def rows_of(lab, *names, images=10, **more):
    layer = next(trials.layers(editions.EDITIONS["2019fa"]))
    variants = tuple(Variant(name, "", plan, params={"A": 1}) for name in names)
    trial = Trial(layer, images, variants, **more)
    return list(Bench(lab, RATES, FULL, 408).rows(trial))


def test_a_row_holds_times_errors_and_the_vendor_in_its_better_layout():
    lab = Lab(ours=[2.0], NCHW=[8.0], NHWC=[6.0])

    (row,) = rows_of(lab, "good")

    json.dumps(row, allow_nan=False)
    assert row["ok"] and row["why"] is None
    assert (row["median_ms"], row["n"], row["mhz"]) == (2, 20, [1700.0] * 3)
    assert (row["error"], row["peer"]["error"]) == (1e-7, 2e-7)
    assert (row["by_element"], row["peer"]["by_element"]) == (2e-7, 3e-7)
    assert (row["peer"]["way"], row["times_peer"]) == ("NHWC", 3)
    assert row["peer"]["medians_ms"] == {"NCHW": 8, "NHWC": 6}
    assert min(row["model_flops_ms"], row["model_bytes_ms"]) > 0
    assert row["params"] == {"A": 1}
    assert row["rates"]["copy_gbps"] == 4000
    assert (row["edition"], row["layer"], row["images"]) == ("2019fa", "conv1", 10)
    assert (row["class"], row["arithmetic"]) == ("fp32", FMA)
    assert "3.00 x NHWC" in bench.line(row)
    assert "back_to_back" not in row and "triton" not in row


def test_the_fastest_are_also_timed_back_to_back_and_beside_triton():
    lab = Lab(ours=[2.0], NCHW=[8.0], NHWC=[6.0], Triton=[4.0], burst=[200.0])
    best, other = rows_of(lab, "best", "good", images=10_000)

    assert best["triton"]["median_ms"] == 4 and best["times_peer"] == 3
    assert best["triton"]["by_element"] == 3e-7
    assert best["back_to_back"]["median_ms"] == 2
    assert "back_to_back" not in other and "triton" not in other


def test_numbers_of_a_wide_range_are_timed_without_the_vendor():
    (row,) = rows_of(Lab(ours=[2.0]), "best", images=10_000, wide=True)

    assert row["wide"] and row["ok"] and row["peer"] is None
    assert "back_to_back" not in row


def test_an_empty_kernel_has_a_row():
    row = Bench(Lab(ours=[0.002]), RATES, FULL, 1).empty()

    assert (row["what"], row["ok"], row["median_ms"]) == ("empty", True, 0.002)
    assert "0.0020 ms" in bench.line(row)


def test_what_is_wrong_refuses_or_does_not_compile_has_a_row_without_a_time():
    lab = Lab(
        ours=[1.0], peers=(), broken={"syntax": ProjectError("a.cu: error\nmore")}
    )

    rows = rows_of(lab, "wrong", "lazy", "refuses", "syntax", "good")

    assert [row["ok"] for row in rows] == [False] * 4 + [True]
    assert [row["why"] for row in rows[:4]] == [
        "the error is 5.0e-01, more than 1e-06",
        "9 elements are not written, or not finite",
        "refuses does not support this: too odd",
        "a.cu: error",
    ]
    assert not any("median_ms" in row for row in rows[:4])
    for row in rows:
        json.dumps(row, allow_nan=False)
        assert bench.line(row)


def test_what_is_wrong_after_its_times_were_taken_has_none():
    (row,) = rows_of(Lab(ours=[1.0], peers=()), "racing")
    assert not row["ok"] and "median_ms" not in row
    assert row["why"] == "the error is 5.0e-01, more than 1e-06"


def test_where_memory_is_too_small_the_next_ones_are_tried_and_a_fault_ends_it():
    small = GpuError("CUDA_ERROR_OUT_OF_MEMORY: cuMemAlloc failed")
    fault = GpuError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal access")
    lab = Lab(ours=[1.0], peers=(), broken={"large": small, "bad": fault})

    rows = rows_of(lab, "large", "good", "bad")

    assert [row["ok"] for row in rows] == [False, True, False]
    assert [bool(row.get("fatal")) for row in rows] == [False, False, True]
    lab = Lab(ours=[1.0], peers=(), broken={"case": small})
    assert [row["why"] for row in rows_of(lab, "a", "b")] == [str(small)] * 2
    with pytest.raises(GpuError):
        rows_of(Lab(ours=[1.0], peers=(), broken={"case": fault}), "a")


def test_facts_of_a_machine_are_read_from_what_nvidia_smi_prints():
    facts = gpu_facts.parsed(SMI)
    assert facts["gpu"] == "NVIDIA H200"
    assert (facts["sm_mhz_max"], facts["celsius"]) == (1980, 45)


def test_what_nvidia_smi_does_not_know_is_none():
    facts = gpu_facts.parsed("A, B, 5, [N/A], [N/A]")
    assert facts["sm_mhz_max"] is None and facts["celsius"] is None
    assert gpu_facts.parsed('Field "x" is not a valid field to query.') == {}
    assert gpu_facts.parsed("") == {}


def test_without_a_repository_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_facts, "ROOT", tmp_path)
    assert gpu_facts.commit() == "unknown"


def test_a_clean_commit_stays_clean_when_rows_are_added(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_facts, "ROOT", tmp_path)
    (tmp_path / "a").write_text("1")
    (tmp_path / "project/measurements").mkdir(parents=True)
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "a"), ("commit", "-q", "-m", "a")):
        gpu_facts.subprocess.run([*git, *words], check=True)

    (tmp_path / "project/measurements/x.jsonl").write_text("{}")
    clean = gpu_facts.commit()
    assert len(clean) == 12
    (tmp_path / "b").write_text("1")
    assert gpu_facts.commit() == f"{clean}-dirty"


@pytest.mark.kernels
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("unit", [bench_gpu.TIMING, float64.UNIT], ids=str)
def test_what_measures_compiles_and_stays_in_registers(unit, target):
    made = compiler.find().compile(unit, target)
    assert {usage.spilled_bytes for usage in usages(made.log)} == {0}


def test_a_script_that_fails_has_no_last_line():
    assert script_time.run([sys.executable, "-c", "print(1); exit(4)"])[0] == ""
    assert script_time.run([sys.executable, "-c", "print(1); print(2)"])[0] == "2"


@pytest.mark.parametrize("arguments", [["--class", "no"], ["--images", "0"]])
def test_a_wrong_command_line_is_refused_before_the_gpu_is_opened(
    arguments, monkeypatch, capsys
):
    monkeypatch.setattr("sys.argv", ["bench.py", *arguments])
    with pytest.raises((UsageError, SystemExit)):
        bench.main()
