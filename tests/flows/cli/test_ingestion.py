"""Ingestion into a topic of a real broker, where a member of the group in place of the indexing flow commits."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import kafka
import pytest
from rich.console import Console

from flows.assembly.delivery import kafka_client
from flows.cli.ingestion import Ingested, RejectedDocument, index_once, ingest
from flows.process.embedded import embedded_settings, start_with_settings
from operators.delivery.client import ProducerRecord
from operators.mapping.rows import read_row
from schemas import headers as names
from schemas.errors import FatalDelivery, InputError
from schemas.settings import DocumentSettings, KafkaSettings
from tests.operators.delivery.transactions import indexing
from tests.repeated import repeated

WITHIN = 60.0


@contextmanager
def applying(settings: KafkaSettings, rejected: frozenset[bytes] = frozenset()) -> Iterator[list[bytes]]:
    """Read the documents as the group, and commit; their keys. Those of `rejected` become dead letters."""
    keys: list[bytes] = []
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
        group_id=settings.group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    consumer.assign([kafka.TopicPartition(settings.topics.documents, number) for number in range(2)])

    def apply() -> None:
        polled = consumer.poll(timeout_ms=100)
        read = [record for records in polled.values() for record in records]
        keys.extend(record.key for record in read)
        producer.send([letter(settings, record) for record in read if record.key in rejected])
        if polled:
            consumer.commit()

    with closing(consumer), closing(kafka_client(settings).plain_producer()) as producer, repeated(apply):
        yield keys


def letter(settings: KafkaSettings, record: Any) -> ProducerRecord:
    """The dead letter of a document."""
    why = {
        names.TOPIC: record.topic,
        names.PARTITION: str(record.partition),
        names.OFFSET: str(record.offset),
        names.STAGE: "decode",
        names.CLASS: "invalid",
        names.MESSAGE: "text: missing",
    }
    headers = (*record.headers, *((name, said.encode()) for name, said in why.items()))
    return ProducerRecord(settings.topics.dead_letters, record.key, record.value, headers)


def test_rejected_documents_are_told_by_place_and_reason(kafka_settings: KafkaSettings) -> None:
    """A dead letter isn't counted as applied; dead letters of another ingestion are not of this one."""
    documents = [(f"page: {3 * number}.ü", {"id": f"d{number}"}) for number in range(8)]
    with applying(kafka_settings, frozenset({b"d2", b"d5"})):
        for _ in range(2):
            ingested = ingest(kafka_settings, documents, lambda *_: None, WITHIN)
            wrong = [
                RejectedDocument(f"page: {at}.ü", id_, "invalid", "text: missing")
                for at, id_ in ((6, "d2"), (15, "d5"))
            ]
            assert (ingested.sent, ingested.applied, ingested.rejected) == (8, 6, wrong)


@pytest.mark.both_clients
def test_it_returns_when_the_group_has_committed_all(kafka_settings: KafkaSettings) -> None:
    """Every document is in the topic once, keyed by its id, and applied on return; the progress ends with that."""
    told: list[tuple[int, int]] = []
    documents = [{"id": f"d{number}", "text": random.Random(number).randbytes(500).hex()} for number in range(12_000)]
    with applying(kafka_settings) as keys:
        for again in (1, 2):
            numbered = enumerate(documents, 1)
            ingested = ingest(kafka_settings, numbered, lambda *moved: told.append(moved), WITHIN)
            assert ingested == Ingested(len(documents), [])
            assert sorted(keys) == sorted(document["id"].encode() for document in documents * again)
    assert told[-1] == (len(documents), len(documents))
    # They are more than may be on their way at a time.
    assert told[0][1] < len(documents)


def test_a_document_has_one_key_with_its_deletion(kafka_settings: KafkaSettings) -> None:
    """Also one whose id is a digest of its content: in two partitions they would overtake each other."""
    form = DocumentSettings(ids="content", columns={"text": "body"})
    row = {"body": "Hold the button."}
    digest = read_row(row, form)["id"]
    with applying(kafka_settings) as keys:
        ingest(kafka_settings, [(1, row), (2, {"id": digest, "op": "delete"})], lambda *_: None, WITHIN, form)
        assert keys == [digest.encode()] * 2


def test_a_group_that_does_not_move_is_said(kafka_settings: KafkaSettings) -> None:
    """Without the indexing flow it ends, and says what may be missing."""
    with pytest.raises(FatalDelivery, match="no document was applied for 1 s: is the indexing flow running"):
        ingest(kafka_settings, [(1, {"id": "a"})], lambda *_: None, 1)


@pytest.mark.both_clients
def test_a_transaction_of_another_producer_is_waited_for(kafka_settings: KafkaSettings) -> None:
    """While it is open, documents behind it aren't applied, and not counted so; its end is nothing to wait for."""
    with indexing(kafka_settings, kafka_settings.topics.documents) as other, applying(kafka_settings) as keys:
        ingest(kafka_settings, [(1, {"id": "a"})], lambda *_: None, WITHIN)
        for partition in (0, 1):
            other.write(b"other", 1, partition)
            # Its key may lead to either partition.
            documents = [(number, {"id": f"b{number}"}) for number in range(20)]
            with pytest.raises(FatalDelivery, match="no document was applied for 1 s"):
                ingest(kafka_settings, documents, lambda *_: None, 1)
            other.abort()
        ingested = ingest(kafka_settings, [(1, {"id": "c"})], lambda *_: None, WITHIN)
        assert ingested.applied == 1
        assert keys[-1] == b"c"


def test_a_document_that_the_topic_does_not_take_is_said(kafka_settings: KafkaSettings) -> None:
    """It ends the ingestion, and isn't counted as produced."""
    large = {"id": "large", "text": random.Random(0).randbytes(1_500_000).hex()}
    with pytest.raises(FatalDelivery, match="larger than the topic takes"):
        ingest(kafka_settings, [(1, large)], lambda *_: None, WITHIN)


def test_an_index_keeps_the_outcome_of_its_documents(tmp_path: Path) -> None:
    """The second time nothing is indexed, and what was rejected is known; a note of another form is none."""
    read = list[str]()

    def documents() -> Iterator[tuple[object, dict[str, Any]]]:
        read.append("once")
        yield from [("line 1", {"id": "a", "text": "a lamp"}), ("line 2", {"id": "b"})]

    def index(version: str, *, complete: bool = False) -> Ingested:
        with start_with_settings(embedded_settings(tmp_path, {"embedder": {"kind": "none"}})) as flow:
            return index_once(
                flow, "lamps", documents, version, tmp_path, Console(quiet=True), total=2, complete=complete
            )

    first = index("1")
    assert (first.sent, [each.where for each in first.rejected]) == (2, ["line 2"])
    assert (index("1"), len(read)) == (first, 1)
    with pytest.raises(InputError, match="1 of 2 documents were rejected"):
        index("1", complete=True)
    (tmp_path / "indexed").write_text("of another version of the program")
    assert (index("1"), len(read)) == (first, 2)
