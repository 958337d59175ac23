"""Consumer lag: how far the group is behind the ends of this member's partitions."""

from typing import Final

from operators.delivery.client import Consumer, TopicPartition
from operators.delivery.ledger import Ledger
from operators.telemetry.metrics import FlowMetrics

INTERVAL: Final = 1.0
"""Seconds between two looks."""


class Lag:
    """Tells the metrics the lag, by what the client last heard of the partitions' ends. For the consumer's thread."""

    def __init__(self, consumer: Consumer, ledger: Ledger, metrics: FlowMetrics) -> None:
        self._consumer = consumer
        self._ledger = ledger
        self._metrics = metrics
        self._told: set[TopicPartition] = set()
        self._looked_at = 0.0

    def look(self, now: float) -> None:
        """Tell the lag, if it is time; `now` is on the monotonic clock. What isn't assigned any more has none."""
        if now - self._looked_at < INTERVAL:
            return
        self._looked_at = now
        ends, committed = self._consumer.ends(self._ledger.partitions), self._ledger.positions()
        behind = {each: max(0, end - committed[each]) for each, end in ends.items() if each in committed}
        for partition, lag in behind.items():
            self._metrics.lag[partition.topic, str(partition.partition)].set(lag)
        for partition in self._told - behind.keys():
            self._metrics.lag.remove(partition.topic, str(partition.partition))
        self._told = set(behind)
