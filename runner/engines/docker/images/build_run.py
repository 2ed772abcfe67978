"""What both builders need to know of one build."""

from __future__ import annotations

from msgspec import Struct

from runner.core import BuildImage, ImagePlan
from runner.core.cancel import Cancel
from runner.engines.docker.endpoint import EngineProbe
from runner.engines.local.cgroup import Group


class BuildRun(Struct, frozen=True):
    """One build; it must end ``until`` a time of the monotonic clock.

    ``dockerfile`` is the text that was checked. ``group`` is the control group of its
    steps; None where this user can make none.
    """

    probe: EngineProbe
    plan: ImagePlan
    asked: BuildImage
    dockerfile: str
    until: float
    group: Group | None
    cancel: Cancel

    @property
    def group_path(self) -> str:
        """The group of the steps' containers as the engine takes it; "" without one."""
        return f"/{self.group.name}" if self.group else ""
