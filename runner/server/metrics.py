"""The figures of `/metrics`, in Prometheus' text format; none has a name of anybody."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from runner.wire.remote_runs import QueueState

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Metrics:
    """What a server counts from its start on."""

    def __init__(self) -> None:
        at = self._registry = CollectorRegistry()
        asked = ["route", "method", "status"]
        self._requests = Counter(
            "rai_requests", "Requests answered.", asked, registry=at
        )
        self._seconds = Histogram(
            "rai_request_seconds",
            "Time until the end of an answer; not of streams and uploads.",
            ["route"],
            buckets=_SECONDS,
            registry=at,
        )
        self._uploaded = Counter(
            "rai_upload_bytes", "Bytes of uploads taken.", registry=at
        )
        self._followers = Gauge(
            "rai_followers", "Clients that follow a run.", registry=at
        )
        self._runs = Gauge(
            "rai_runs", "Runs that have not ended, by state.", ["state"], registry=at
        )
        self._ended = Counter(
            "rai_runs_ended", "Runs that ended, by reason.", ["reason"], registry=at
        )
        self._gpus = Gauge("rai_gpus", "GPUs, by use.", ["use"], registry=at)
        self._wait = Histogram(
            "rai_queue_wait_seconds",
            "From a run's request to its start.",
            buckets=_WAITS,
            registry=at,
        )
        self._refused = Counter(
            "rai_refused", "Requests refused, by reason.", ["reason"], registry=at
        )

    def answered(
        self, route: str, method: str, status: int, seconds: float | None
    ) -> None:
        """Count a request; ``seconds`` is None for one that may take long."""
        method = method if method in _METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route).observe(seconds)

    def refused(self, reason: str) -> None:
        """Count a request that was refused."""
        self._refused.labels(reason).inc()

    def uploaded(self, size: int) -> None:
        """Count bytes of an upload."""
        self._uploaded.inc(size)

    def following(self, change: int) -> None:
        """Count followers that come (1) or go (-1)."""
        self._followers.inc(change)

    def waited(self, seconds: float) -> None:
        """Count a run that started after waiting."""
        self._wait.observe(max(seconds, 0))

    def ended(self, reason: str) -> None:
        """Count a run that ended."""
        self._ended.labels(reason).inc()

    def queue(self, states: dict[QueueState, int], gpus: int, gpus_free: int) -> None:
        """Set what the queue and the host look like now."""
        for state in QueueState:
            if state is not QueueState.ENDED:
                self._runs.labels(state.value).set(states.get(state, 0))
        self._gpus.labels("free").set(gpus_free)
        self._gpus.labels("taken").set(gpus - gpus_free)

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self._registry)
