"""Submissions of a sample project, at a queue whose runs the test decides."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner import pack
from runner.core import Reason
from runner.core.wire import Scope, Submission, SubmissionRequest
from runner.pack.write import zstd
from runner.server.database.accounts import Identity
from runner.server.paths import upload_path
from runner.server.submissions import receipt
from runner.spec import milestones
from runner.submit import files, submission
from tests.kit import judge_cases as made
from tests.kit import sample_submission as sample
from tests.kit.fake_engine import tar_of
from tests.kit.queued import Queue
from tests.submit.test_judging import WRONG_NUMBER

CUBINS = {"0.cubin": b"\x7fELF", "compiled.json": b'{"units": []}'}
SPOILED = made.refused("1 other program used the GPU")
IS_WRONG = made.refused("wrong result", correct=False, wrong=WRONG_NUMBER)


def sealed(project: Path, into: Path, name: str = "final") -> bytes:
    """Return a project packed as its client packs a submission; it may be bad."""
    milestone = milestones.find(name)
    submitted = files.look(project, milestone)
    submission.seal(submission.CheckedSubmission(milestone, submitted), into)
    return into.read_bytes()


def built(contents: Mapping[str, bytes]) -> bytes:
    """Return the archive of a build folder."""
    files = {f"build/{name}": content for name, content in contents.items()}
    return zstd.compress(tar_of(files))


def measured(*entries: dict[str, Any]) -> bytes:
    """Return the build folder of a measure run."""
    text = json.dumps(made.measurement(*entries))
    return built({"measurement.json": text.encode()})


class Submitting:
    """Submits to a queue, and ends the runs of what was submitted."""

    def __init__(self, queue: Queue, folder: Path) -> None:
        self.queue = queue
        self.data = sealed(sample.write(folder / "team"), folder / "sent.tar.zst")
        self._keys = 0

    def put(
        self, team: str = "red", *, rehearsal: bool = False, data: bytes = b""
    ) -> int:
        """Submit to `final`; return the number."""
        data, store = data or self.data, self.queue.store
        sha256 = hashlib.sha256(data).hexdigest()
        path = upload_path(self.queue.folder, team, sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        store.add_upload(team, sha256, len(data), self.queue.now)
        asked = SubmissionRequest("final", sha256, rehearsal, "/home/ada/net", "c0ffee")
        who = Identity("token", "ada", team, "student", (Scope.RUN,))
        self._keys += 1
        key, milestone = f"{self._keys:010x}", milestones.find("final")
        made = receipt(who, key, asked, milestone, "2026fa")
        given = team, key, "final", "2026fa", self.queue.now
        return store.add_submission(*given, made)[0].number

    def one(self, number: int) -> Submission:
        """Return a submission as it is now."""
        found = self.queue.store.submission(number)
        assert found is not None
        return found

    def going(self, number: int) -> str:
        """Let the queue go on until a submission has a run that a worker took."""
        for _ in range(10):
            self.queue.step()
            run = self.one(number).going
            if run is not None and run.run in self.queue.runs.workers:
                return run.run
        raise AssertionError(f"no run goes on: {self.one(number)}")

    def end(
        self, number: int, build: bytes = b"", reason: Reason = Reason.DONE
    ) -> Submission:
        """End the run of a submission that goes on, and let the queue go on."""
        run = self.going(number)
        if build:
            self.queue.runs.write(run, "build.tar.zst", build)
        self.queue.runs.end(run, reason, kept_bytes=1000)
        self.queue.step(3)
        return self.one(number)

    def compiled(self, number: int) -> Submission:
        """End the compile run of a submission well."""
        return self.end(number, built(CUBINS))


def unpacked(path: Path, into: Path) -> Path:
    """Unpack what a run was given."""
    pack.unpack(path, into)
    return into
