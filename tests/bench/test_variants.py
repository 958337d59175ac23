"""The variants of the bench change what they say."""

import subprocess
import sys


def test_metrics_that_count_nothing() -> None:
    """In the program without metrics every kind of metric keeps its first value, with labels and without."""
    asked = """
from prometheus_client import CollectorRegistry, Counter, Gauge
from bench.unmetered import uncounted
from operators.telemetry.metrics import Histogram
registry = CollectorRegistry()
counted = Counter("counted", "", ["label"], registry=registry), Gauge("set", "", registry=registry)
observed = Histogram("observed", "", registry=registry)
uncounted()
counted[0].labels("x").inc()
counted[1].set(3)
observed.observe(1.0)
values = [registry.get_sample_value(*each) for each in (("counted_total", {"label": "x"}), ("set",), ("observed_sum",))]
print(values)
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True, text=True)
    assert done.stdout == "[0.0, 0.0, 0.0]\n"
