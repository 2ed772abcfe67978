"""The table of the course's editions."""

import pytest
from course import editions, graph, network


@pytest.mark.parametrize(
    ("edition", "model", "flat"),
    [
        ("2017fa", "baseline", 7200),
        ("2017fa", "ece408-high", 7200),
        ("2018sp", "ece408", 10816),
        ("2018fa", "ece408", 17496),
        ("2019sp", "ece408", 5184),
        ("2019sp", "baseline", 5400),
        ("2019fa", "baseline", 20184),
        ("2019fa", "ece408", 20184),
    ],
)
def test_the_numbers_that_reach_the_first_dense_layer_are_the_courses(
    edition, model, flat
):
    found = editions.edition(edition)

    (flatten,) = (
        step
        for step in graph.steps(found.model(model).layers, found.size)
        if isinstance(step.layer, graph.Flatten)
    )
    assert flatten.y == (flat,)


def test_the_layers_of_a_model_with_our_convolution_carry_the_custom_ops_name():
    edition = editions.edition("2019fa")

    assert network.shapes(edition, edition.model("ece408")) == {
        "new0_weight": (12, 1, 5, 5),
        "new1_weight": (24, 12, 5, 5),
        "fullyconnected0_weight": (160, 20184),
        "fullyconnected0_bias": (160,),
        "fullyconnected1_weight": (10, 160),
        "fullyconnected1_bias": (10,),
    }
    assert "convolution0_weight" in network.shapes(edition, edition.model("baseline"))


def test_the_edition_of_fall_2019_is_the_default():
    assert editions.DEFAULT is editions.edition("2019fa")
    assert editions.edition() is editions.DEFAULT
