"""Why a machine shows no GPU, from what it shows of NVIDIA."""

from __future__ import annotations

import pytest

from runner.engines.gpu import access

COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", access.TOOLS)
OWN = ("/dev/nvidia0", "/dev/nvidia1")


def why(*closed: str) -> access.Why:
    nodes = (*COMMON, *OWN)
    return access.why(
        access.NvidiaPresence(driver="580.1", nodes=nodes, closed=closed, user="ann")
    )


@pytest.mark.parametrize(
    "closed", [("/dev/nvidiactl",), ("/dev/nvidia-uvm",), OWN, (*COMMON, *OWN)]
)
def test_files_that_this_user_may_not_open_are_named_with_what_to_do(closed):
    problem, hint = why(*closed)
    needed = [node for node in closed if node != access.TOOLS]
    assert problem == f"ann may not open {', '.join(needed)}"
    assert "group" in hint


@pytest.mark.parametrize("closed", [(), (access.TOOLS,), ("/dev/nvidia1",)])
def test_another_users_gpu_and_what_profilers_open_keep_nobody_from_the_rest(closed):
    assert why(*closed) == ("", "")
