"""What sinfo says of nodes, read."""

from __future__ import annotations

import pytest

from runner.core.units import MIB
from runner.slurm import nodes
from runner.slurm.nodes import ClusterNode, gpus, listing, why_not

WIDTHS = (100, 100, 12, 40, 50, 24, 24, 400, 400, 400)


def line(
    name: str = "n1",
    state: str = "idle",
    cpus: str = "0/2/0/2",
    used: str = "0",
    gres: str = "gpu:h100:1",
    gres_used: str = "gpu:h100:0(IDX:N/A)",
    why: str = "none",
    partition: str = "main*",
    up: str = "up",
) -> str:
    """Return a line as sinfo of Slurm 22.05 prints it."""
    fields = (name, partition, up, state, cpus, "8000", used, gres, gres_used, why)
    return "".join(
        text[:width].ljust(width) for text, width in zip(fields, WIDTHS, strict=True)
    )


def one(text: str) -> ClusterNode:
    (found,) = nodes.nodes(text)
    return found


def test_a_node_s_cores_memory_and_gpus_are_told_with_what_is_free_of_them():
    text = line(
        state="mixed", cpus="1/1/0/2", used="1000", gres_used="gpu:h100:1(IDX:0)"
    )
    found = one(text)
    assert (found.name, found.state, found.why) == ("n1", "mixed", "")
    assert (found.cores, found.cores_free) == (2, 1)
    assert (found.memory_bytes, found.memory_free) == (8000 * MIB, 7000 * MIB)
    assert (found.gpus, found.gpus_free) == ({"h100": 1}, {"h100": 0})
    assert not found.idle
    assert one(line()).idle


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:4", {"": 4}),
        ("gpu:(null):1(IDX:0)", {"": 1}),
        ("gpu:h100:4(S:0-1)", {"h100": 4}),
        ("gpu:h100:4(S:0,2),gpu:1g.10gb:7(S:1)", {"h100": 4, "1g.10gb": 7}),
        ("mps:100,gpu:a100_3g.20gb:2(IDX:0,1),shard:8", {"a100_3g.20gb": 2}),
        ("gpu:tesla:no_consume:4", {"tesla": 4}),
        ("gpu:h100:4(IDX:0-", {"h100": 4}),
        ("(null)", {}),
        ("gpu:x:" + "9" * 50, {}),
    ],
)
def test_gpus_are_read_with_their_models_slices_and_places(text, found):
    assert gpus(text) == found


@pytest.mark.parametrize(
    "state",
    [
        *("idle", "mixed", "allocated", "allocated+", "completing", "planned"),
        *("idle~", "idle#", "mixed-", "powered_down~", "powering_up#"),
    ],
)
def test_a_job_may_start_soon_on_a_node_that_works_or_that_slurm_powers_up(state):
    assert why_not(state, "none") == ""


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("drained", "is drained: a fan is broken"),
        ("drained*", "is drained: a fan is broken"),
        ("draining", "is draining: a fan is broken"),
        ("down*", "is down: a fan is broken"),
        ("mixed*", "is mixed*: a fan is broken"),
        ("idle$", "is idle$: a fan is broken"),
        ("reserved", "is reserved: a fan is broken"),
        ("idle@", "is idle@: a fan is broken"),
        ("sleepy", "is sleepy: a fan is broken"),
    ],
)
def test_a_node_that_takes_no_job_says_slurms_state_and_reason(state, words):
    assert why_not(state, "a  fan is\nbroken") == words


def test_an_administrator_s_reason_is_bounded_and_escaped():
    assert why_not("down", "\x1b[31mred ✱") == r"is down: \x1b[31mred \u2731"
    assert len(why_not("down", "x" * 5000)) == len("is down: ") + nodes.MOST_REASON


def test_the_lines_of_a_reason_are_no_nodes():
    text = f"{line(state='drained', why='first')}\nsecond\n{line('n2')}"
    assert [found.name for found in nodes.nodes(text)] == ["n1", "n2"]
    assert nodes.nodes("slurm_load_node error: Invalid node\n\0\n") == ()


def test_without_a_partition_the_default_one_is_meant():
    text = "\n".join([line("n1"), line("n2", partition="gpu"), line("n1")])
    assert [found.name for found in nodes.nodes(text)] == ["n1"]
    assert [found.name for found in nodes.nodes(text, "gpu")] == ["n1", "n2"]
    text = "\n".join([line("n1", partition="cpu"), line("n2", partition="gpu")])
    assert [found.name for found in nodes.nodes(text)] == ["n1", "n2"]


def test_nodes_of_a_partition_that_is_down_take_no_job():
    found = one(line(up="down"))
    assert found.why == "takes no job: the partition main is down"
    assert found.cores_free == 0


def test_gpus_in_use_whose_model_is_not_told_are_not_free():
    found = one(line(gres="gpu:h100:4", gres_used="gpu:(null):3(IDX:0-2)"))
    assert found.gpus_free == {"h100": 1}


def test_sinfo_is_asked_for_fields_of_the_widths_that_are_read():
    *words, fields = listing("gpu")
    assert words == ["sinfo", "--noheader", "--Node", "--partition=gpu"]
    widths = [int(field.partition(":")[2]) for field in fields.split(",")]
    assert tuple(widths) == WIDTHS
