"""The histogram that counts in bulk tells what Prometheus's own tells."""

import threading

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from operators.telemetry.metrics import AT_ONCE, Histogram

BOUNDS = (0.0, 0.001, 0.5, 1.0, 30.0)
amounts = st.lists(st.sampled_from(BOUNDS) | st.floats(-1.0, 100.0))


def told(registry: CollectorRegistry) -> dict[tuple[str, str], Sample]:
    """Every sample by name and bound, but for the time of creation."""
    samples = [sample for family in registry.collect() for sample in family.samples]
    return {(each.name, each.labels.get("le", "")): each for each in samples if not each.name.endswith("_created")}


def values(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """The values of the same."""
    return {name: sample.value for name, sample in told(registry).items()}


@given(st.lists(amounts, max_size=4))
def test_bulk_and_single_counts_are_the_same(collected: list[list[float]]) -> None:
    """Whatever is observed between two collections, every bucket, the count and the sum are those of Prometheus's
    own histogram.
    """
    bulk, single = CollectorRegistry(), CollectorRegistry()
    ours = Histogram("took", "", ["flow"], registry=bulk, buckets=BOUNDS).labels("search")
    theirs = prometheus_client.Histogram("took", "", ["flow"], registry=single, buckets=BOUNDS).labels("search")
    for each in collected:
        for amount in each:
            ours.observe(amount)
            theirs.observe(amount)
        assert values(bulk) == pytest.approx(values(single), abs=1e-9)


def test_no_more_wait_than_are_counted_at_once() -> None:
    """A process that nobody scrapes keeps a bounded number of samples."""
    registry = CollectorRegistry()
    histogram = Histogram("took", "", registry=registry, buckets=BOUNDS)
    most = 0
    for _ in range(3 * AT_ONCE + 1):
        histogram.observe(0.1)
        most = max(most, len(histogram._waiting))
    assert most < AT_ONCE
    assert registry.get_sample_value("took_count") == 3 * AT_ONCE + 1


def test_every_sample_counts_once_whichever_thread_observes_or_collects() -> None:
    """Four threads observe while a fifth collects: none is lost, and none is counted twice."""
    registry = CollectorRegistry()
    histogram = Histogram("took", "", registry=registry, buckets=BOUNDS)
    each = 20 * AT_ONCE

    def observe() -> None:
        for _ in range(each):
            histogram.observe(1.0)

    threads = [threading.Thread(target=observe) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        values(registry)
    assert registry.get_sample_value("took_count") == registry.get_sample_value("took_sum") == 4 * each


def test_a_bucket_has_the_latest_exemplar_of_its_samples() -> None:
    """Those of recorded traces; a later sample without one does not take it away."""
    registry = CollectorRegistry()
    histogram = Histogram("took", "", registry=registry, buckets=BOUNDS)
    for amount, trace_id in ((0.3, "first"), (0.4, "second"), (0.45, None), (0.9, "third")):
        histogram.observe(amount, {"trace_id": trace_id} if trace_id is not None else None)
    histogram.observe(20.0)
    found = {bound: sample.exemplar for (name, bound), sample in told(registry).items() if name == "took_bucket"}
    assert {bound: (each.labels["trace_id"], each.value) for bound, each in found.items() if each is not None} == {
        "0.5": ("second", 0.4),
        "1.0": ("third", 0.9),
    }
