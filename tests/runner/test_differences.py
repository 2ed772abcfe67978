"""What differed between a run and its replay."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner import report
from runner.core import (
    CommandRecord,
    EngineFacts,
    Findings,
    GitState,
    Gpu,
    GpuUse,
    GpuWay,
    ImageAction,
    ImageUsed,
    Inference,
    Limits,
    Machine,
    Outcome,
    Profile,
    Reason,
    RunRecord,
    State,
    Verdict,
)

MACHINE = Machine("here", "Linux", "cpu", 2, 1 << 30, "3.11", "0.1.0")
COMMAND = CommandRecord(
    0,
    "python m1.1.py",
    None,
    Outcome.OK,
    exit_code=0,
    wall_s=2.0,
    findings=Findings((Inference((0.5, 0.25), 0.8, "ece408"),)),
)
RUN = RunRecord(
    "a1",
    "/p",
    "rai_build.yml",
    100.0,
    state=State.DONE,
    verdict=Verdict(True, True, None, Reason.DONE),
    ended_at=103.0,
    engine=EngineFacts("docker", "20.10"),
    profile=Profile.STRICT,
    limits=Limits(),
    machine=MACHINE,
    git=GitState("c0ffee"),
    image=ImageUsed("gcc:12", "sha256:1", ImageAction.REUSE, ""),
    gpu=GpuUse(GpuWay.CDI, (Gpu("GPU-1", "H100", 0),), "580.1"),
    data=("/data/a",),
    data_md5={"/data/a": "11"},
    archive_sha256="ff",
    commands=(COMMAND,),
)
AGAIN = replace(RUN, id="b2", created_at=200.0, ended_at=204.0, replays="a1")


def told(after: RunRecord) -> list[tuple[str, str, str]]:
    return [(d.what, d.before, d.after) for d in report.changes(RUN, after)]


def test_times_and_ids_are_no_differences():
    slower = replace(COMMAND, wall_s=3.0, cpu_s=1.0)

    assert told(replace(AGAIN, commands=(slower,))) == []
    (first, _) = report.differences(RUN, AGAIN)
    assert first == report.Pairs((("Nothing but times differed from run a1.", ""),))


@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({"machine": replace(MACHINE, host="there")}, [("machine", "here", "there")]),
        ({"machine": replace(MACHINE, rai="0.2.0")}, [("rai", "0.1.0", "0.2.0")]),
        ({"engine": EngineFacts("local", "20.10")}, [("engine", "docker", "local")]),
        (
            {"engine": EngineFacts("docker", "29")},
            [("engine version", "20.10", "29")],
        ),
        (
            {"image": ImageUsed("gcc:12", "sha256:2", ImageAction.BUILD, "gone")},
            [("image digest", "sha256:1", "sha256:2")],
        ),
        (
            {"image": None},
            [("image", "gcc:12", ""), ("image digest", "sha256:1", "")],
        ),
        (
            {"gpu": GpuUse(GpuWay.CDI, (Gpu("GPU-2", "H200", 0),), "590")},
            [("GPU", "H100 (GPU-1)", "H200 (GPU-2)"), ("driver", "580.1", "590")],
        ),
        ({"data_md5": {"/data/a": "22"}}, [("data /data/a", "11", "22")]),
        ({"data_md5": {}}, []),
        (
            {"data": (), "missing_data": ("/data/a",), "data_md5": {}},
            [("data /data/a", "here", "missing")],
        ),
        (
            {"git": GitState("c0ffee", dirty=True)},
            [("commit", "c0ffee", "c0ffee, with changes")],
        ),
        ({"profile": Profile.COMPATIBLE}, [("profile", "strict", "compatible")]),
        ({"limits": Limits(pids=64)}, [("limit pids", "512", "64")]),
        (
            {
                "commands": (
                    replace(COMMAND, exit_code=124, reason=Reason.TIME_LIMIT),
                ),
                "verdict": Verdict(True, False, None, Reason.TIME_LIMIT),
            },
            [
                ("reason", "done", "time_limit"),
                ("command 1", "ok, exit 0", "time_limit, exit 124"),
            ],
        ),
        (
            {
                "commands": (
                    replace(COMMAND, findings=Findings((Inference((1.0,), 0.7, "n"),))),
                )
            },
            [("inference 1", "ece408 correctness 0.8", "n correctness 0.7")],
        ),
    ],
)
def test_what_differs_is_named_with_both_values(changes, differences):
    assert told(replace(AGAIN, **changes)) == differences


def test_times_stand_side_by_side():
    quicker = replace(
        COMMAND, wall_s=1.0, findings=Findings((Inference((0.25,), 0.8, "ece408"),))
    )

    *_, times = report.differences(RUN, replace(AGAIN, commands=(quicker,)))

    assert isinstance(times, report.Table)
    assert times.heads == ("time", "run a1", "run b2", "ratio")
    assert times.rows == (
        ("command 1: python m1.1.py", "2.0 s", "1.0 s", "0.50"),
        ("inference 1, op 1", "0.500 s", "0.250 s", "0.50"),
        ("inference 1, op 2", "0.250 s", "", ""),
    )


def test_runs_that_ended_early_can_be_compared():
    bare = RunRecord("a1", "/p", "f", 1.0)

    assert report.changes(bare, replace(bare, id="b2")) == ()
    assert len(report.differences(bare, AGAIN)) == 2
