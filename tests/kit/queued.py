"""A server's queue for tests: a real store, fake runs and a feeder."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

from msgspec import json

from runner.core import Reason, RunRequest
from runner.core.request import to_json
from runner.core.wire import QueueState
from runner.core.work import Secrets
from runner.server import messages
from runner.server.database import Store
from runner.server.feeder import Feeder
from runner.server.judging import Judging
from runner.server.paths import upload_path
from runner.server.scheduling import QueueRow, Role, ServerRules
from tests.kit.fake_runs import FakeRuns
from tests.kit.store_rows import new_store

NOW = 1_800_000_000.0
SHA256 = "5" * 64
OFFLINE = Role("student", ceilings={"network": 0.0})
RULES = ServerRules(roles={"student": OFFLINE}, slots=2)


class CountedStore(Store):
    """A store that counts how often each run was ended."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ends: Counter[str] = Counter()

    def ended(
        self,
        run_id: str,
        at: float,
        reason: Reason | None,
        why: str = "",
        kept_bytes: int = 0,
    ) -> bool:
        done = super().ended(run_id, at, reason, why, kept_bytes)
        self.ends[run_id] += done
        return done


class Queue:
    """What a server is, but for its web part; ``step`` lets a second go by."""

    def __init__(self, folder: Path, gpus: int = 0, rules: ServerRules = RULES) -> None:
        self.store = new_store(folder, CountedStore)
        self.runs = FakeRuns(folder / "home", gpus)
        self.folder = folder / "uploads"
        self.rules = rules
        self.now = NOW
        self.steps: list[str] = []
        self._steps = logging.Handler()
        self._steps.emit = lambda record: self.steps.append(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger(messages.NAME)
        logger.setLevel(logging.INFO)
        logger.addHandler(self._steps)
        self.feeder = self.fresh()

    def fresh(self) -> Feeder:
        """Return another server's feeder, which knows what the store knows."""

        given = self.store, self.runs, self.rules, self.folder
        judging = Judging(self.store, self.runs, self.folder, ())
        return Feeder(*given, launch=lambda work: work(), judging=judging)

    def restart(self) -> None:
        self.feeder = self.fresh()

    def upload(self, team: str = "red", sha256: str = SHA256) -> Path:
        """Put a whole upload there; return its file."""
        path = upload_path(self.folder, team, sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"packed")
        self.store.add_upload(team, sha256, 6, self.now)
        return path

    def put(self, run_id: str, team: str = "red", **other: object) -> QueueRow:
        """Queue a run of an upload."""
        sha256 = str(other.pop("sha256", SHA256))
        self.upload(team, sha256)
        asked = RunRequest(
            "/home/ada/net", "rai_build.yml", "rai: {}", "t", engine="local"
        )
        secret = Secrets({"KEY": "hunter2"}, "rai: {}")
        fields: dict[str, object] = {
            "id": run_id,
            "team": team,
            "person": "ada",
            "role": "student",
            "digest": "d" * 64,
            "sha256": sha256,
            "parcel": to_json(asked),
            "queued_at": self.now,
            "secrets": json.encode(secret).decode(),
        }
        row = QueueRow(**(fields | other))  # type: ignore[arg-type]
        return self.store.add_run(row)[0]

    def step(self, times: int = 1, after_s: float = 1.0) -> None:
        for _ in range(times):
            self.now += after_s
            self.feeder.step(self.now)

    def row(self, run_id: str) -> QueueRow:
        found = self.store.run(run_id)
        assert found is not None
        return found

    def state(self, run_id: str) -> QueueState:
        return self.row(run_id).state

    def close(self) -> None:
        logging.getLogger(messages.NAME).removeHandler(self._steps)
        self.runs.close()
        self.store.close()
