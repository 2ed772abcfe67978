"""What a server's role allows within the site's policy: the narrower of both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import BuildSpec, Limits, Place, Profile
from runner.core.policy import (
    NO_POLICY,
    AllowList,
    Ceiling,
    Policy,
    RolePolicy,
    fit,
    over,
    within,
)
from runner.spec import images

LINE = Place("/etc/rai/policy.yml", 2, 3)
ROLE = "the role `student` of this server"
TIMES = st.none() | st.floats(1, 10_000)


def site(most: float | None) -> Policy:
    return Policy({} if most is None else {"time_s": Ceiling(most, LINE)})


def role(most: float | None = None, **more: object) -> RolePolicy:
    ceilings = {} if most is None else {"time_s": most}
    return RolePolicy(ceilings, source=ROLE, **more)  # type: ignore[arg-type]


def refused(limits: Limits, rules: Policy) -> list[str]:
    return [p.message for p in over(limits, Profile.STRICT, rules)]


@given(TIMES, TIMES, st.floats(1, 10_000))
def test_a_limit_is_allowed_where_both_ceilings_allow_it(one, two, asked):
    limits = Limits(time_s=asked)
    both = refused(limits, site(one)) + refused(limits, within(NO_POLICY, role(two)))

    assert bool(refused(limits, within(site(one), role(two)))) == bool(both)


@given(TIMES, TIMES)
def test_a_default_is_lowered_to_the_lower_of_both_ceilings(one, two):
    lowest = min(n for n in (one, two, Limits().time_s) if n is not None)

    assert fit(Limits(), within(site(one), role(two))).time_s == lowest


def test_a_problem_names_what_says_the_lower_ceiling():
    text = "resources.limits.time is 90 s, and at most 60 s is allowed by"
    asked = Limits(time_s=90.0)

    assert refused(asked, within(site(600), role(60))) == [f"{text} {ROLE}"]
    assert refused(asked, within(site(60), role(600))) == [f"{text} {LINE}"]


def test_a_role_without_the_network_refuses_it():
    asked = Limits(network=True)

    assert refused(asked, within(NO_POLICY, role())) == []
    offline = RolePolicy({"network": 0.0}, source=ROLE)
    assert refused(asked, within(NO_POLICY, offline)) == [
        f"resources.limits.network is on, which is not allowed by {ROLE}"
    ]


def test_an_image_has_to_be_on_both_lists():
    of_site = Policy(images=(AllowList(("debian:*", "course/*"), LINE),))
    both = within(of_site, role(images=("course/*", "ubuntu:*")))

    def problems(image: str) -> list[str]:
        spec = BuildSpec("rai_build.yml", image=image)
        return [p.message for p in images.not_allowed(spec, both)]

    assert problems("course/rai:1") == []
    assert problems("debian:12") == [
        f"rai.image is debian:12, which is not allowed by {ROLE}"
    ]
    assert problems("ubuntu:24.04") == [
        f"rai.image is ubuntu:24.04, which is not allowed by {LINE}"
    ]
    assert len(problems("alpine")) == 2


def test_a_role_with_an_empty_list_allows_no_image():
    found = images.other("debian:12", within(NO_POLICY, role(images=())))
    assert [p.hint for p in found] == ["no image is allowed"]


def test_only_the_strict_profile_is_allowed():
    rules = within(NO_POLICY, role())
    (problem,) = over(Limits(), Profile.COMPATIBLE, rules)
    assert problem.message == f"the compatible profile is not allowed by {ROLE}"
    assert within(Policy(strict=LINE), role()).strict == LINE
    assert within(NO_POLICY, RolePolicy()).strict


def test_a_ceiling_for_no_limit_is_refused():
    with pytest.raises(ValueError, match="no limits are tmie_s"):
        within(NO_POLICY, RolePolicy({"tmie_s": 1.0}, source=ROLE))
