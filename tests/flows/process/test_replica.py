"""A replica: what its probes are told."""

from types import SimpleNamespace
from typing import Any

from bytewax.dataflow import Dataflow

from flows.assembly import Resources
from flows.process.replica import Replica
from operators.delivery.ledger import Ledger
from operators.delivery.source import ConsumerLoop
from operators.runtime.event_loop import EventLoopThread, Wakeup
from tests.operators.delivery.scripted import WITHIN, ScriptedConsumer, until
from tests.operators.samples import METRICS


def test_a_replica_that_has_ended_stands_not_still() -> None:
    """Its flow is done and it has left its group, while another flow of the process may drain for long."""
    calls = EventLoopThread(wakeup := Wakeup())
    loop = ConsumerLoop(consumer := ScriptedConsumer(), Ledger(1), "queries", wakeup, WITHIN, METRICS)
    delivery: Any = SimpleNamespace(flush=lambda _: None, advance=lambda: None, start=lambda: None, close=lambda: None)
    replication: Any = SimpleNamespace(consumer_loop=loop, delivery=delivery, calls=calls)
    replica = Replica(replication, Dataflow("search"), Resources(), {}, watchdog=600.0)
    with replica.feeding():
        until(consumer.subscribed.is_set)
        consumer.subscribed.clear()
        loop.moved_at -= 601.0
        assert not replica.stable_until_end()
        assert not replica.live()
        replica.stop()
    calls.close()
    assert replica.stable_until_end()
    assert replica.live()
    assert not replica.stable()


def test_a_worker_that_stands_still_is_not_live() -> None:
    """It is live while it has asked for messages within the watchdog's seconds, and again once it asks again."""
    loop = ConsumerLoop(ScriptedConsumer(), Ledger(1), "queries", Wakeup(), 1.0, METRICS)
    replication: Any = SimpleNamespace(consumer_loop=loop)
    replica = Replica(replication, Dataflow("search"), Resources(), {}, watchdog=600.0)
    assert replica.live()
    loop.moved_at -= 601.0
    assert not replica.live()
    loop.take()
    assert replica.live()
