"""Damaged logs: one with records twice at the same offsets, as a broker leaves it whose index couldn't be written; and
one that ends below what its readers have committed, as after the loss of its leader, or of the topic.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from bench.kafka.broker import Broker
from operators.delivery import topics
from operators.delivery.ledger import Ledger
from operators.delivery.source import ConsumerLoop
from operators.delivery.tracker import Commit
from operators.runtime.event_loop import Wakeup
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import WITHIN, Make, first, member, polled, produce
from tests.operators.delivery.reading import FIRST, Reader
from tests.operators.delivery.scripted import until
from tests.operators.samples import METRICS


@pytest.fixture
def data(tmp_path: Path, broker_tools: None) -> Path:
    """The directory of a broker's logs."""
    return tmp_path / "data"


@pytest.fixture
def repeating(data: Path) -> Iterator[KafkaSettings]:
    """Settings of a broker whose first partition of queries has the offsets 0, 1 and 2, and 0, 1 and 2 once more."""
    with Broker(data=data) as broker:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap, partitions=2, max_poll_interval=7)
        topics.create(settings)
        produce(settings, 3)
        broker.stop()
        log = data / "queries-0" / "00000000000000000000.log"
        log.write_bytes(log.read_bytes() * 2)
        broker.start()
        yield settings


def test_a_repeated_offset_is_read_once(make: Make, repeating: KafkaSettings) -> None:
    """The first record at an offset is handed over, the second is reported, and what follows is read."""
    reader = Reader(make(repeating).consumer(), 100, WITHIN)
    with structlog.testing.capture_logs() as logs, closing(reader.consumer_loop) as loop:
        loop.start(reader.flush, reader.advance)
        until(lambda: reader.offsets(FIRST) == [0, 1, 2])
        reader.answer_all()
        produce(repeating, 1)
        until(lambda: reader.offsets(FIRST) == [0, 1, 2, 3])
    repeated = [log["offset"] for log in logs if log["event"].startswith("partition repeats an offset")]
    assert repeated == [0, 1, 2]


def test_a_log_that_ends_below_the_committed_offset_is_a_failure(make: Make, settings: KafkaSettings) -> None:
    """It has lost records, or is another one: what it has may be new, so none is passed over in silence."""
    produce(settings, 3)
    with member(make(settings), settings) as joined, polled(joined):
        joined.consumer.commit({first(settings): Commit(10, "")}, joined.consumer.group_metadata())
    topic = settings.topics.queries
    loop = ConsumerLoop(make(settings).consumer(), Ledger(100), topic, Wakeup(), WITHIN, METRICS)

    def ended() -> bool:
        try:
            assert loop.take() == []
        except StopIteration:
            return True
        return False

    with closing(loop):
        loop.start(lambda _: None, lambda: None)
        until(ended)
        with pytest.raises(FatalDelivery, match=r"-0: ends at offset 3, and was read up to 10: .* --reset-off"):
            loop.check()
