"""Counts and times in the text form that Prometheus reads."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends, in seconds, of the bins of times."""
VERDICTS = ("known", "unknown", "unreadable")
Gauges = Mapping[str, tuple[str, float]]
"""Values of this moment, each with what it means."""


class Metrics:
    """What has happened since the server started."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.images: Counter[str] = Counter()
        self.bins = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer; only predictions are timed."""
        self.requests[path, str(status)] += 1
        if path == "/predict":
            self.bins[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds

    def text(self, gauges: Gauges) -> str:
        """Return everything, with the values of this moment."""
        lines = [*head("madod_requests_total", "counter", "answers by path and status")]
        lines += [
            f'madod_requests_total{{path="{path}",status="{status}"}} {count}'
            for (path, status), count in sorted(self.requests.items())
        ]
        lines += head("madod_images_total", "counter", "pictures by verdict")
        lines += [f'madod_images_total{{verdict="{name}"}} {self.images[name]}' for name in VERDICTS]
        lines += head("madod_predict_seconds", "histogram", "time from a request's head to its answer")
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.bins, strict=True):
            total += count
            lines.append(f'madod_predict_seconds_bucket{{le="{bound}"}} {total}')
        lines += [f"madod_predict_seconds_sum {self.seconds:.6f}", f"madod_predict_seconds_count {total}"]
        for name, (meaning, value) in gauges.items():
            lines += [*head(name, "counter" if name.endswith("_total") else "gauge", meaning), f"{name} {value:g}"]
        return "\n".join(lines) + "\n"


def head(name: str, kind: str, meaning: str) -> list[str]:
    """Return the lines that introduce a metric."""
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
