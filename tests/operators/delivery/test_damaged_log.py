"""A log that holds records twice at the same offsets, as a broker leaves it whose index couldn't be written."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from bench.kafka.broker import Broker
from operators.delivery import topics
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import WITHIN, Make, produce
from tests.operators.delivery.reading import FIRST, Reader
from tests.operators.delivery.scripted import until


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
