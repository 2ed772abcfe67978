"""The table of editions in docs/kernels/editions.md, made of the kept rows."""

import json

from tools.benchmarks import rows, table


def row(backend, *, given=False, model="ece408", digest="d", share=0.89, **more):
    return json.dumps(
        {
            "bench": f"2019fa {model} by {backend}",
            "edition": "2019fa",
            "model": model,
            "backend": backend,
            "given": given,
            "digest": digest,
            "published": 0.7653,
            "images": 10000,
            "accuracy": {"100": 0.9, "10000": share},
            "differs": 0,
            "op_times_s": [0.25, 0.5],
            **more,
        }
    )


def cells(*lines):
    _, _, *rest = table.render(lines).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rest]


def test_a_models_row_holds_what_each_backend_found_and_the_fastest_kernels_times():
    lines = [row("float64"), row("c++"), row("mxnet"), row("numpy")]
    lines += [row("cuda-naive"), row("cuda-tiled", op_times_s=[0.001, 0.00212])]

    (found,) = cells(*lines)
    assert found[:7] == ["2019fa", "ece408", "0.7653", *(4 * ["0.8900"])]
    assert found[7:] == ["0.25 + 0.5 s", "0.001 + 0.00212 s"]


def test_what_was_not_measured_is_a_dash_and_the_latest_row_counts():
    lines = [row("float64"), row("c++", share=0.5), row("c++", share=0.75)]

    assert cells(*lines)[0][3:] == ["0.7500", "–", "–", "–", "0.25 + 0.5 s", "–"]


def test_what_other_weights_gave_is_not_shown():
    assert cells(row("float64", digest="new"), row("numpy"))[0][5] == "–"


def test_a_prediction_that_is_not_float64s_is_told():
    assert cells(row("float64"), row("numpy", differs=2))[0][5] == "0.8900 (2 differ)"


def test_a_library_model_has_the_vendors_accuracy_and_no_times_of_ours():
    lines = [
        row("float64", model="baseline"),
        row("cudnn", model="baseline", share=0.8),
    ]
    lines += [row("cuda-naive", model="baseline"), row("c++", model="baseline")]

    assert cells(*lines)[0][6:] == ["0.8000", "–", "–"]


def test_the_courses_own_weights_have_a_row_of_their_own():
    lines = [row("float64"), row("float64", given=True), row("numpy", given=True)]

    assert [line[1] for line in cells(*lines)] == [
        "ece408",
        "ece408, the course's weights",
    ]


def test_the_page_shows_what_was_measured():
    page = table.PAGE.read_text()

    made = table.render(rows.RESULTS.read_text().splitlines())
    assert table.replaced(page, made) == page, "run: make table"
