"""plan.json, which a team wrote: what is read of it keeps to every bound.

What is read writes as JSON that reads the same, its words are of letters, digits and
few others, and a file that is refused has problems, few and short.
"""

from __future__ import annotations

import re

import msgspec

from runner.core import plan_reader
from runner.spec import milestones
from runner.submit import planning

_WORDS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+-]*")
_LAUNCH = (
    b'{"kernel":"conv","grid":[12,18,10000],"block":[16,16,1],"buffers":["y","x","k"],'
    b'"numbers":[1,-2],"shared_bytes":0}'
)
_LAYER = (
    b'{"name":"%s","shape":{"B":10000,"M":%d,"C":%d,"H":%d,"W":%d,"K":5},'
    b'"storage":"float32","unit":{"file":"a/b.cu","target":"sm_90a","defines":{"T":1}},'
    b'"constants":["w"],"scratch":{"m":4},"launches":[' + _LAUNCH + b"]}"
)
_PLAN = (
    b'{"version":1,"edition":"2019fa","registry":"%s","registry_files":["project/p.py"],'
    b'"sources":{"project/cuda/a/b.cu":"%s"},"milestones":{"final":[{"variant":"v",'
    b'"class":"fp32","plans":[{"architectures":["sm_90"],"convolutions":[%s,%s]}]}]}}'
) % (
    *(b"0" * 64, b"1" * 64),
    *(_LAYER % (b"conv1", 12, 1, 70, 70), _LAYER % (b"conv2", 24, 12, 33, 33)),
)
_BY_HAND = (
    b'{"version":1,"milestones":{"final":[{"variant":"v","class":"fp32","convolutions":'
    b'[{"unit":{"file":"a.cu","defines":{"T":16}},"launches":[{"kernel":"f","grid":'
    b'["ceil(W_out / T) * (M - -1) // 2","min(M, B)","B"],"block":["T","T",1],'
    b'"buffers":["y","x","k"],"numbers":["B"]}],"comment":["a",""]}]}]}}'
)
SEEDS = (
    _PLAN,
    _BY_HAND,
    _PLAN.replace(b"12,18", b"0,-18"),
    _PLAN.replace(b'"edition"', b'"registry"'),
    _PLAN.replace(b"a/b.cu", b"../b.cu\\n"),
    b"[" * 30,
    b'{"version":NaN}',
    b'"\\"\\"',
    b"\xff{}",
)
FINAL = milestones.find("final")


def one(data: bytes) -> None:
    """Read the bytes, and plan what was read."""
    plan, problems = plan_reader.read(data)
    assert (plan is None) == bool(problems)
    assert len(problems) <= plan_reader.MOST_PROBLEMS + 1
    assert all(len(str(problem)) < 5000 for problem in problems)
    if plan is None:
        return
    again, none = plan_reader.read(msgspec.json.encode(plan))
    assert again == plan and none == ()
    found = dict.fromkeys([*(plan.sources or ()), *plan.registry_files], "0" * 64)
    job, problems = planning.job(FINAL, "sm_90", "", plan, found)
    assert (job is None) == bool(problems)
    for entries in plan.milestones.values():
        for entry in entries:
            for serving in (entry, *entry.plans):
                for layer in serving.convolutions:
                    target = layer.unit.target or "sm_90"
                    words = [layer.unit.file, target, *layer.unit.defines]
                    words += [
                        name for launch in layer.launches for name in launch.buffers
                    ]
                    assert all(_WORDS.fullmatch(word) for word in words), words
                    assert ".." not in layer.unit.file.split("/")
