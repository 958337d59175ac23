"""A replica: what its probes are told."""

from types import SimpleNamespace
from typing import Any

from bytewax.dataflow import Dataflow

from flows.assembly.resources import Resources
from flows.process.replica import Replica
from operators.delivery.ledger import Ledger
from operators.delivery.source import ConsumerLoop
from operators.runtime.wakeup import Wakeup
from tests.operators.delivery.scripted import ScriptedConsumer
from tests.operators.samples import METRICS


def test_a_worker_that_stands_still_is_not_live() -> None:
    """It is live while it has asked for messages within the watchdog's seconds, and again once it asks again."""
    loop = ConsumerLoop(ScriptedConsumer(), Ledger(1), "queries", Wakeup(), 1.0, METRICS)
    replication: Any = SimpleNamespace(consumer_loop=loop)
    replica = Replica(replication, Dataflow("search"), Resources(), watchdog=600.0)
    assert replica.live()
    loop.moved_at -= 601.0
    assert not replica.live()
    loop.take()
    assert replica.live()
