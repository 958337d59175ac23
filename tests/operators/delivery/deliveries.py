"""A running delivery on a scripted producer, and queries for it to answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from operators.delivery.client import TopicPartition
from operators.delivery.ledger import Ledger
from operators.delivery.output_record import OutputRecord
from operators.delivery.sink import Delivery
from operators.delivery.tracker import Commit
from tests.operators.delivery.scripted import ScriptedConsumer, ScriptedProducer
from tests.operators.samples import METRICS, REPLY_TOPICS, output_record, way_out

PARTITION = TopicPartition("queries", 0)
INTERVAL = 0.005


@contextmanager
def delivering(
    producer: ScriptedProducer, ledger: Ledger, interval: float = INTERVAL
) -> Iterator[tuple[Delivery, list[BaseException]]]:
    """A running delivery and what it reported as failed; closed at the end."""
    failures: list[BaseException] = []
    delivery = Delivery(
        producer, ScriptedConsumer(), ledger, way_out(), interval, failures.append, METRICS, REPLY_TOPICS
    )
    delivery.start()
    yield delivery, failures
    delivery.close()
    assert producer.closed


def read(count: int) -> tuple[Ledger, list[OutputRecord]]:
    """A ledger with `count` queries in flight, and their answers."""
    ledger = Ledger(1024)
    epoch = ledger.assign(PARTITION, Commit(0, ""))
    for offset in range(count):
        ledger.see(PARTITION, offset)
    return ledger, [output_record(offset, epoch=epoch) for offset in range(count)]
