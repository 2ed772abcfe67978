"""The lock of a GPU elsewhere, while others remove images and containers."""

from __future__ import annotations

from types import SimpleNamespace

from docker.errors import APIError, NotFound

from runner.core import Gpu
from runner.engines.docker import owner
from runner.engines.docker.gpu import hold

DEAD = owner.labels("dead", 60) | {owner.OWNER: "host/boot/namespace/1/1"}
DEAD[owner.DEADLINE] = "1"


def refused(status: int) -> APIError:
    kind = NotFound if status == 404 else APIError
    return kind("refused", response=SimpleNamespace(status_code=status, reason=""))


class Engine:
    """An engine that refuses calls as it is told, and then serves."""

    def __init__(self, **refusals: list[int]) -> None:
        self._refusals = refusals
        self.held: list[str] = []

    def _told(self, call: str) -> None:
        if self._refusals.get(call):
            raise refused(self._refusals[call].pop(0))

    def images(self, quiet: bool) -> list[str]:
        return ["an image"]

    def create_host_config(self, **_: object) -> dict[str, str]:
        return {}

    def create_container(self, image: str, **_: object) -> dict[str, str]:
        self._told("create")
        self.held.append(image)
        return {"Id": "new"}

    def inspect_container(self, name: str) -> dict[str, object]:
        return {"Id": "old", "Created": "", "Config": {"Labels": DEAD}}

    def remove_container(self, container: str, **_: bool) -> None:
        self._told("remove")


def held(engine: Engine) -> list[str]:
    with hold(engine, Gpu("GPU-1", "X", 0), "mine"):
        return engine.held


def test_an_image_that_is_removed_meanwhile_gives_place_to_another():
    assert held(Engine(create=[404])) == ["an image"]


def test_a_dead_holder_that_another_run_is_removing_is_waited_for():
    assert held(Engine(create=[409, 409], remove=[409, 404])) == ["an image"]
