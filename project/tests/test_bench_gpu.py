"""The benchmark on a GPU: what it calls right, what wrong, and what it measures."""

from dataclasses import replace

import numpy as np
import pytest
from bench import Bench
from course import editions
from course.shapes import ConvShape
from lab import measurement, trials
from lab.bench_gpu import Lab
from lab.measurement import Rule
from lab.trials import Trial
from plans.kernels import VARIANTS

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("compiled_once")]

QUICK = Rule(least=5, error=0.05, most_s=1.0, batch=3, agree=0.1, warm_s=0.5)
LAYER = next(trials.layers(editions.EDITIONS["2019fa"]))
NAIVE = VARIANTS["naive"]
SMALL = ConvShape(1, 1, 1, 6, 6, 3)
SIZES = (1, 1, 6, 6), (1, 1, 3, 3)


@pytest.fixture
def lab(device):
    return Lab(device)


def rows(lab, *variants, images=70):
    return list(
        Bench(lab, lab.rates(), QUICK, 408).rows(Trial(LAYER, images, variants))
    )


def leaving_out(**launched):
    """Plan as the naive kernel, for another shape than what is asked for."""
    return replace(NAIVE, plan=lambda s, p: NAIVE.plan(replace(s, **launched), p))


def test_a_right_kernel_has_a_time_errors_and_a_clock(lab):
    (row,) = rows(lab, NAIVE)

    assert row["ok"], row["why"]
    assert 0 < row["error"] < 1e-6
    assert 0 < row["by_element"] < 4e-6
    assert row["min_ms"] <= row["median_ms"] <= row["max_ms"]
    assert row["median_ms"] > row["model_flops_ms"]
    median, least, most = row["mhz"]
    assert 100 < least <= median <= most < 1.1 * row["machine"]["sm_mhz_max"]
    assert row["machine"]["gpu"] == lab.device.name


def test_the_vendors_result_is_right_too(lab):
    if lab.torch is None:
        pytest.skip("gpu: PyTorch is not installed, or does not see the GPU")
    (row,) = rows(lab, NAIVE)
    assert row["peer"]["error"] < 1e-6
    assert row["peer"]["by_element"] < 4e-6
    assert row["times_peer"] > 0


def test_an_empty_kernel_takes_some_time(lab):
    row = Bench(lab, lab.rates(), QUICK, 408).empty()
    assert 0 < row["median_ms"] < 1


def test_launches_that_are_recorded_start_again_as_a_graph(device):
    naive, y = Lab(device).load(NAIVE, SMALL), device.empty((16,))
    x, k = (device.upload(np.ones(sizes, np.float32)) for sizes in SIZES)
    naive.start(y, x, k)
    start = device.recorded(lambda: naive.start(y, x, k))
    device.fill(y, 255)

    start()

    assert device.download(y).tolist() == [9.0] * 16


def test_an_image_that_is_left_out_is_seen_wherever_it_is(lab):
    last, map_ = rows(lab, leaving_out(B=69), leaving_out(M=11))
    assert not last["ok"] and not map_["ok"]
    one = LAYER.shape.floats_out
    assert last["why"] == f"{one} elements are not written, or not finite"
    assert "median_ms" not in last


def test_other_sums_are_seen(lab):
    (row,) = rows(lab, replace(NAIVE, plan=_fewer_columns))
    assert not row["ok"]
    assert "error is" in row["why"]


def _fewer_columns(shape, params):
    """Tell the kernel of weights that are smaller than they are."""
    (launch,) = NAIVE.plan(shape, params)
    channels, height, width, kernel = launch.numbers
    wrong = (channels, height - 1, width - 1, kernel - 1)
    return (replace(launch, numbers=wrong),)


def test_without_pytorch_there_is_no_peer(lab):
    lab.torch = None
    (row,) = rows(lab, NAIVE)
    assert row["ok"] and row["peer"] is None


def test_numbers_of_a_wide_range_are_right_too(lab):
    trial = Trial(LAYER, 70, (NAIVE, VARIANTS["best"]), wide=True)
    for row in Bench(lab, lab.rates(), QUICK, 408).rows(trial):
        assert row["ok"], row["why"]


def test_triton_is_right_where_it_runs(lab):
    with lab.case(Trial(LAYER, 70, ()), 408) as case:
        way = case.triton()
        if way is None:
            pytest.skip("gpu: Triton is not installed, or does not compile")
        assert case.peer_check(way).norm < 1e-6


def test_random_numbers_are_those_of_their_seed(lab):
    errors = [rows(lab, NAIVE)[0]["error"] for _ in range(2)]
    assert errors[0] == errors[1]


def test_a_gpus_rates_are_what_a_gpu_can_do(lab):
    rates = lab.rates()
    assert 10 < rates.copy_gbps < 100_000
    assert 0.1 < rates.fma_tflops < 1000
    assert rates.half_tflops > rates.fma_tflops
    assert measurement.modelled(LAYER.shape, "fma", 4, rates)["model_bytes_ms"] > 0
