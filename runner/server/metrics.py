"""The figures of `/metrics`, in Prometheus' text format; none has a name of anybody."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Metrics:
    """What a server counts from its start on."""

    def __init__(self) -> None:
        at = self.registry = CollectorRegistry()
        asked = ["route", "method", "status"]
        self.requests = Counter(
            "rai_requests", "Requests answered.", asked, registry=at
        )
        self.seconds = Histogram(
            "rai_request_seconds",
            "Time until the end of an answer; not of streams and uploads.",
            ["route"],
            buckets=_SECONDS,
            registry=at,
        )
        self.refused = Counter(
            "rai_refused", "Requests refused, by reason.", ["reason"], registry=at
        )
        self.uploaded = Counter(
            "rai_upload_bytes", "Bytes of uploads taken.", registry=at
        )
        self.followers = Gauge(
            "rai_followers", "Clients that follow a run.", registry=at
        )
        self.runs = Gauge(
            "rai_runs", "Runs that have not ended, by state.", ["state"], registry=at
        )
        self.ended = Counter(
            "rai_runs_ended", "Runs that ended, by reason.", ["reason"], registry=at
        )
        self.gpus = Gauge("rai_gpus", "GPUs, by use.", ["use"], registry=at)
        self.waited = Histogram(
            "rai_queue_wait_seconds",
            "From a run's request to its start.",
            buckets=_WAITS,
            registry=at,
        )

    def answered(
        self, route: str, method: str, status: int, seconds: float | None
    ) -> None:
        """Count a request; ``seconds`` is None for one that may take long."""
        method = method if method in _METHODS else "other"
        self.requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self.seconds.labels(route).observe(seconds)
