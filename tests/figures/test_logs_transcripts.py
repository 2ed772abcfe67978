"""Whole outputs: the right figures come out of each file, and nothing else.

Ours are in tests/data/; what students pasted is read with the marker `data`.
"""

import re
from pathlib import Path

import pytest

from runner.core import Findings, Inference, ProfileTable, TimeUsage
from tests.kit import outside
from tests.kit.sourceless import find

OURS = Path(__file__).parents[1] / "data" / "transcripts"
FOLDER = outside.path("transcripts")

GPU, API = "GPU activities", "API calls"

INFERENCES = {
    "milestones.txt": (
        Inference(accuracy=0.9),
        Inference((0.038007, 0.154991), 0.9, "ece408"),
    ),
    "profile.txt": (),
    "01.txt": (
        Inference(accuracy=0.8154),
        Inference(accuracy=0.8154),
        Inference((11.170585, 62.900722), 0.7653, "ece408"),
    ),
    "02.txt": (
        Inference((0.010833, 0.028232), 0.8397, "ece408"),
        Inference((0.000670, 0.003034), 0.852, "ece408"),
    ),
    "03.txt": (),
    "04.txt": (
        Inference((0.000813, 0.002090), 0.85, "ece408"),
        Inference((0.007907, 0.020562), 0.827, "ece408"),
        Inference((0.078684, 0.194563), 0.8171, "ece408"),
    ),
    "05.txt": (),
    "06.txt": (Inference((79.4643, 230.304), accuracy=0.8714),),
    "07.txt": (
        Inference((11.848820, 78.762176), 0.7653, "ece408"),
        Inference((11.857139, 76.192041), 0.7653, "ece408"),
    ),
    "08.txt": (
        Inference(
            (89.7592, 1.28342), accuracy=0.8714, layer_times_s=(90.4053, 1.70062)
        ),
    ),
    "09.txt": (Inference((0.558571,), 0.8562),),
    "10.txt": (),
    "report-11.txt": (
        Inference(accuracy=0.8673),
        Inference(accuracy=0.8673),
        Inference((12.210156,), 0.8562, "ece408-high"),
        Inference((12.217530,), 0.629, "ece408-low"),
        Inference((0.448302,), 0.8562, "ece408-high"),
    ),
    "report-12.txt": (
        Inference(accuracy=0.8673),
        Inference(accuracy=0.8673),
        Inference((12.146829,), 0.8562, "ece408-high"),
    ),
    "report-13.txt": (
        Inference(accuracy=0.8673),
        Inference(accuracy=0.8673),
        Inference(accuracy=0.8673),
        Inference((9.150308,), 0.8562, "ece408-high"),
        Inference((17.488640,), 0.8562, "ece408-high"),
        Inference((9.064748,), 0.629, "ece408-low"),
        Inference((9.146770,), 0.8562, "ece408-high"),
    ),
}

TIME_USAGE = {
    "milestones.txt": (
        TimeUsage(0.28, 0.07, 0.32, 110, 78564),
        TimeUsage(0.85, 0.12, 0.87, 112, 82912),
    ),
    "01.txt": (
        TimeUsage(18.13, 5.48, 10.17, 232, 6046756),
        TimeUsage(10.53, 2.06, 6.47, 194, 2986076),
        TimeUsage(89.86, 10.13, 78.52, 127, 6045132),
    ),
    "04.txt": (
        TimeUsage(4.12, 2.63, 4.31, 156, 2652208),
        TimeUsage(3.90, 2.42, 4.19, 151, 2662528),
        TimeUsage(4.30, 2.48, 4.57, 148, 2824696),
    ),
    "06.txt": (TimeUsage(399.668, 0.968, 400.644),),
    "07.txt": (TimeUsage(101.02, 8.16, 91.65, 119),),
    "report-11.txt": (TimeUsage(10.01, 4.43, 4.95), TimeUsage(1.75, 0.98, 2.29)),
    "report-13.txt": (
        TimeUsage(1.38, 0.68, 1.89, 108, 904628),
        TimeUsage(26.09, 2.77, 24.04, 120, 2753336),
    ),
}

TABLES = {
    "profile.txt": ((GPU, 5), (API, 5)),
    "02.txt": ((GPU, 13), (API, 36), (GPU, 7)),
    "03.txt": ((GPU, 15), (API, 35)),
    "07.txt": ((GPU, 18), (API, 30)),
    "09.txt": ((GPU, 12), (API, 31)),
    "report-12.txt": ((GPU, 12), (API, 32)),
    "report-13.txt": ((GPU, 12),),
}

ROWS = [
    ("profile.txt", 0, 2, "[CUDA memcpy HtoD]", 0.13, 7.51e-07, 2, 3.75e-07),
    ("profile.txt", 1, 0, "cudaMalloc", 93.32, 0.0012053, 2, 0.00060266),
    ("02.txt", 1, 3, "cudaFuncSetAttribute", 0.88, 0.065361, 912, 7.1667e-05),
    ("02.txt", 2, 3, None, 3.19, 0.0002327, 2, 0.00011635),
    ("03.txt", 0, 0, "[CUDA memcpy HtoD]", 36.73, 0.037451, 20, 0.0018726),
    ("07.txt", 0, 2, "volta_gcgemm_64x32_nt", 16.98, 0.019163, 4, 0.0047907),
    ("report-12.txt", 1, 2, "cudaMemGetInfo", 20.78, 0.82131, 24, 0.034221),
    ("report-13.txt", 0, 4, "[CUDA memcpy HtoD]", 8.03, 0.01101, 13, 0.00084689),
]


def found(name: str) -> Findings:
    folder = OURS if (OURS / name).is_file() else FOLDER
    return find((folder / name).read_bytes())


def marked(names):
    """Return names, or rows that begin with one, marked where a file is not ours."""
    rows = [(each,) if isinstance(each, str) else each for each in names]
    return [
        pytest.param(*row, marks=() if (OURS / row[0]).is_file() else pytest.mark.data)
        for row in rows
    ]


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


@pytest.mark.parametrize("name", marked(INFERENCES))
def test_the_figures_are_those_that_were_printed(name):
    figures = found(name)
    tables = tuple((one.section, len(one.rows)) for one in figures.profiles)

    assert figures.inferences == INFERENCES[name]
    assert figures.time_usage == TIME_USAGE.get(name, ())
    assert tables == TABLES.get(name, ())
    for table in figures.profiles:
        total = sum(row.percent for row in table.rows)
        assert table.tool == "nvprof"
        assert total == pytest.approx(100, abs=1 if name == "02.txt" else 0.2)


@pytest.mark.parametrize(
    ("file", "table", "place", "name", "percent", "total_s", "calls", "avg_s"),
    marked(ROWS),
)
def test_rows_hold_what_was_printed(
    file, table, place, name, percent, total_s, calls, avg_s
):
    row = found(file).profiles[table].rows[place]

    assert (row.percent, row.total_s) == (percent, total_s)
    assert (row.calls, row.avg_s) == (calls, avg_s)
    assert name is None or row.name == name


@pytest.mark.data
def test_a_name_broken_in_delivery_or_wrapped_by_a_document_is_whole_again():
    broken: ProfileTable = found("07.txt").profiles[0]
    name = broken.rows[16].name
    assert "mshadow::expr::Plan<mshadow::expr::ReduceWithAxisExp<" in name
    assert name.endswith("mshadow::Shape<int=2>, int=2)")

    wrapped: ProfileTable = found("report-12.txt").profiles[0]
    assert squeezed(wrapped.rows[2].name) == squeezed(
        "void cudnn::detail::activation_fw_4d_kernel<float, float, int=128, int=1, "
        "int=4, cudnn::detail::tanh_func<float>>(cudnnTensorStruct, float const *, "
        "cudnn::detail::activation_fw_4d_kernel<float, float, int=128, int=1, int=4, "
        "cudnn::detail::tanh_func<float>>, cudnnTensorStruct*, float, "
        "cudnnTensorStruct*, int, cudnnTensorStruct*)"
    )


@pytest.mark.parametrize("folder", [OURS, pytest.param(FOLDER, marks=pytest.mark.data)])
def test_every_transcript_has_its_expectation(folder):
    names = {path.name for path in folder.glob("*.txt")}

    assert names
    assert names <= set(INFERENCES)
