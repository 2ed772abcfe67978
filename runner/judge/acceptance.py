"""Why a measurement is not accepted, in plain sentences.

    reasons = why(rules, samples, Conditions(floors=..., site=...))
    accepted = not reasons

No single sample decides: all that is compared are medians and quartiles, so that a
late interrupt or a clock that changes for a moment refuses nobody. What less than a
quarter of the samples show moves the median little, and what more of them show either
moves the medians that are compared here or spreads the ratios.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from runner.judge.figures import (
    Rules,
    Sample,
    ratios,
    spread,
    sums,
)
from runner.judge.wrong import Wrong


@dataclass(frozen=True, slots=True)
class SiteReference:
    """The time that the reference takes at this site on this model of GPU."""

    gpu: str
    ms: float
    band: float

    @classmethod
    def from_json(cls, value: Mapping[str, object] | None, rules: Rules) -> Self | None:
        """Return the job's reference, if it has one."""
        if value is None:
            return None
        gpu, ms = value["gpu"], value["ms"]
        band = value.get("band", rules.band)
        assert isinstance(gpu, str)
        assert isinstance(ms, int | float)
        assert isinstance(band, int | float)
        return cls(gpu, float(ms), float(band))


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a measurement of one entry is judged by, beside its samples.

    ``fault`` is a fault of the entry's kernels in words, or "", ``unchecked`` says what
    there was no time to check; ``floors`` are each layer's least time. ``alone_ms`` are
    times of a whole round of references, warmed up, before the entry's first call.
    ``others`` counts other programs on the GPU; ``celsius`` is its temperature after
    the wait for a cool one.
    The throttled shares say how many of the samples and of the references had a clock
    lowered for heat or power. What is unknown keeps its default, and is not judged.
    """

    wrong: Wrong | None = None
    fault: str = ""
    unchecked: str = ""
    floors: Mapping[str, float] = field(default_factory=dict)
    site: SiteReference | None = None
    alone_ms: Sequence[float] = ()
    others: int = 0
    celsius: float | None = None
    throttled: float = 0.0
    reference_throttled: float = 0.0


def why(
    rules: Rules, samples: Sequence[Sample], conditions: Conditions
) -> tuple[str, ...]:
    """Return all reasons why an entry's measurement is not accepted; none if it is.

    A wrong result or a fault ends a measurement early, so nothing else counts then.
    """
    if conditions.wrong:
        return (conditions.wrong.words,)
    if conditions.fault:
        return (f"the kernels failed: {conditions.fault}",)
    found = [conditions.unchecked] if conditions.unchecked else []
    found += _machine(rules, conditions)
    by_layer: dict[str, list[Sample]] = {}
    for sample in samples:
        by_layer.setdefault(sample.layer, []).append(sample)
    for name, its in by_layer.items():
        found += _floor(rules, name, its, conditions.floors.get(name, 0.0))
    found += _rounds(rules, samples)
    found += _reference(rules, samples, conditions)
    return tuple(found)


def _machine(rules: Rules, conditions: Conditions) -> list[str]:
    found = []
    if conditions.others:
        programs = "program" if conditions.others == 1 else "programs"
        found.append(f"{conditions.others} other {programs} used the GPU")
    if conditions.celsius is not None and conditions.celsius > rules.cool_c:
        found.append(
            f"the GPU was at {conditions.celsius:.0f} °C after a wait of "
            f"{rules.cool_wait_s:.0f} s; at most {rules.cool_c:.0f} °C is accepted"
        )
    return found


def _floor(
    rules: Rules, name: str, samples: Sequence[Sample], floor_ms: float
) -> list[str]:
    ms = statistics.median(s.ms for s in samples)
    if ms >= floor_ms * rules.floor_share:
        return []
    return [
        f"{name} took {span(ms)}, but this GPU needs at least {span(floor_ms)} "
        "to move its bytes and compute its products"
    ]


def _rounds(rules: Rules, samples: Sequence[Sample]) -> list[str]:
    values = ratios(samples)
    found = []
    if len(values) < rules.least_rounds:
        found.append(
            f"there are only {len(values)} rounds of samples; "
            f"{rules.least_rounds} are needed"
        )
    if (wide := spread(values)) > rules.spread:
        found.append(
            f"the ratios of the rounds spread by {wide:.1%} of their median; "
            f"at most {rules.spread:.1%} is accepted"
        )
    return found


def _reference(
    rules: Rules, samples: Sequence[Sample], conditions: Conditions
) -> list[str]:
    """Compare the reference with the site's, with itself alone, and its clock."""
    references = [reference for _, reference in sums(samples)]
    if not references:
        return []
    found = []
    ms = statistics.median(references)
    if (site := conditions.site) and abs(ms - site.ms) > site.band * site.ms:
        found.append(
            f"the reference took {span(ms)}; this site expects {span(site.ms)} "
            f"on {site.gpu}, within {site.band:.0%}"
        )
    if conditions.alone_ms:
        alone = statistics.median(conditions.alone_ms)
        if ms > alone * (1 + rules.drift):
            found.append(
                f"the reference took {span(ms)} between the samples and "
                f"{span(alone)} alone"
            )
    more = conditions.reference_throttled - conditions.throttled
    if more > rules.throttled_share:
        found.append(
            "the GPU was throttled during "
            f"{conditions.reference_throttled:.0%} of the references and "
            f"{conditions.throttled:.0%} of the samples"
        )
    return found


def span(ms: float) -> str:
    """Return a time with three digits: 0.312 ms, 12.4 us."""
    return f"{ms:.3g} ms" if abs(ms) >= 0.1 else f"{1000 * ms:.3g} us"
