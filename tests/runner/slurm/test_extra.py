"""Which words users may add to sbatch."""

from __future__ import annotations

import pytest

from runner.slurm.extra import refused


@pytest.mark.parametrize(
    "word",
    [
        *("--reservation=course", "--nice=10", "--exclude=n1", "--licenses=a:1"),
        *("-La:1", "--mail-user=ada@example.org", "--exclusive=user", "-H"),
        *("--gres-flags=enforce-binding", "--wckey=x", "--comment=x", "--begin=now"),
    ],
)
def test_what_does_not_concern_rai_may_be_added(word: str):
    assert list(refused([word])) == []


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("--array=1-3", "rai needs it"),
        ("--arr=1-3", "--array cannot be added"),
        ("-a1-3", "-a (--array)"),
        ("-Ha1-3", "-a (--array)"),
        ("--wrap=id", "rai needs it"),
        ("--requeue", "rai needs it"),
        ("-dafterok:1", "--dependency"),
        ("--output=/x", "rai needs it"),
        ("--export=ALL", "rai needs it"),
        ("--account=x", "slurm.account"),
        ("--partition=x", "--on slurm:PARTITION"),
        ("--mem=0", "resources.limits.memory"),
        ("--gpus=1", "resources.gpu"),
        ("--time=1", "resources.limits.time"),
        ("-xn1", "write --exclude="),
        ("script.sh", "no option"),
        ("--", "cannot be added"),
        ("-", "cannot be added"),
        ("--comment=a\nb", "printed"),
    ],
)
def test_what_rai_decides_is_refused_with_what_says_it(word: str, why: str):
    (problem,) = refused([word])
    assert why in str(problem)
