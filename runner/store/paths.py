"""Every file name of a run, and of rai's home folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class RunPaths(Struct, frozen=True):
    """The folder of one run."""

    root: Path

    @property
    def id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.root.name

    @property
    def events(self) -> Path:
        """One JSON line an event: the truth about the run."""
        return self.root / "events.jsonl"

    @property
    def stdout(self) -> Path:
        """All that the commands wrote to stdout, raw."""
        return self.root / "stdout.log"

    @property
    def stderr(self) -> Path:
        """All that the commands wrote to stderr, raw."""
        return self.root / "stderr.log"

    @property
    def source(self) -> Path:
        """The packed project."""
        return self.root / "source.tar.zst"

    @property
    def parcel(self) -> Path:
        """What to run and how: with the packed project, all that a worker needs."""
        return self.root / "parcel.json"

    @property
    def unpacked(self) -> Path:
        """A sealed project's files, while its run lasts."""
        return self.root / "project"

    @property
    def build(self) -> Path:
        """The build folder that came back."""
        return self.root / "build.tar.zst"

    @property
    def record(self) -> Path:
        """The RunRecord, derived from the events."""
        return self.root / "record.json"

    @property
    def spec(self) -> Path:
        """The build file as it was read."""
        return self.root / "spec.yml"

    @property
    def lock(self) -> Path:
        """Locked by the process that holds the run, for as long as it lives."""
        return self.root / "lock"


class Home(Struct, frozen=True):
    """Where rai keeps what outlives a run."""

    root: Path

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.root / "runs"

    @property
    def index(self) -> Path:
        """The SQLite index of the runs; can be rebuilt from their folders."""
        return self.root / "index.sqlite"

    @property
    def data(self) -> Path:
        """Downloaded data files, each under its own name in a folder named by md5."""
        return self.root / "data"

    def run(self, run_id: str) -> RunPaths:
        """Give the paths of one run."""
        return RunPaths(self.runs / run_id)
