"""The dead-letter topic of a real broker, read as the replay does."""

from contextlib import closing

from flows.assembly.delivery import kafka_client
from flows.cli.replay import dead_letters
from operators.delivery.client import ProducerRecord
from operators.delivery.replay import Position
from schemas import headers as names
from schemas.settings import KafkaSettings
from tests.operators.delivery.transactions import indexing


def letter(topic: str, offset: int) -> ProducerRecord:
    """The dead letter of a query at that offset."""
    place = ((names.TOPIC, b"queries"), (names.PARTITION, b"0"), (names.OFFSET, b"%d" % offset))
    return ProducerRecord(topic, b"%d" % offset, b"{}", place, 1_700_000_000_123)


def test_letters_that_come_meanwhile_are_not_read(kafka_settings: KafkaSettings) -> None:
    """Each letter there is at the start comes once, records that are none as None; what reading causes doesn't come."""
    topic = kafka_settings.topics.dead_letters
    client = kafka_client(kafka_settings)
    moved: list[tuple[int, int]] = []
    places = []
    with closing(client.bounded_reader(topic)) as reader, closing(client.plain_producer()) as producer:
        producer.send([*(letter(topic, offset) for offset in range(20)), ProducerRecord(topic, b"1", b"none")])
        for each in dead_letters(reader, lambda *now: moved.append(now)):
            places.append(each and (each.position, each.timestamp_ms))
            producer.send([letter(topic, 100 + len(places))])
    expected = [(Position("queries", 0, offset), 1_700_000_000_123) for offset in range(20)]
    assert sorted((place for place in places if place), key=str) == sorted(expected, key=str)
    assert places.count(None) == 1
    assert moved[-1] == (21, 21)
    assert moved == sorted(moved)


def test_the_mark_of_a_transaction_is_no_letter_to_wait_for(kafka_settings: KafkaSettings) -> None:
    """A topic that ends with marks and aborted records is read to its end, also when it holds nothing else."""
    topics = kafka_settings.topics
    written = kafka_settings.model_copy(
        update={"topics": topics.model_copy(update={"watermarks": topics.dead_letters})}
    )
    with indexing(written) as writer:
        writer.write(b"a", 1)
        writer.abort()
        writer.commit_one(b"b", 2)
        writer.write(b"c", 3)
        writer.abort()
    with closing(kafka_client(kafka_settings).bounded_reader(topics.dead_letters)) as reader:
        assert list(dead_letters(reader, lambda *_: None)) == [None]
