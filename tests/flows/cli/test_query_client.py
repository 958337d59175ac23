"""The query client on a real broker, where a thread in place of the search flow answers."""

import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import confluent_kafka
import orjson
import pytest

from flows.assembly.delivery import kafka_client
from flows.cli.query import QueryClient, ResultEnds
from operators.delivery.client import ConsumerRecord, ProducerRecord
from schemas import headers as names
from schemas.errors import DeliveryError, FatalDelivery
from schemas.settings import KafkaSettings, Topics
from tests.repeated import repeated

WITHIN = 30.0
QUERIES = [{"query_id": f"q{number}", "text": "harbor"} for number in range(50)]


@contextmanager
def answering(settings: KafkaSettings) -> Iterator[list[int]]:
    """Answer one query at a time, and others' too; how many were unanswered each time."""
    client = kafka_client(settings)
    topic = settings.topics.results
    waiting: deque[bytes] = deque()
    unanswered: list[int] = []

    def answer() -> None:
        waiting.extend(record.value for record in reader.poll(0.02) if record.value is not None)
        if waiting:
            unanswered.append(len(waiting))
            others = [b'{"query_id": "another"}', b'{"specversion": "1.0"}']
            producer.send([ProducerRecord(topic, None, value) for value in (*others, waiting.popleft())])

    reader = client.bounded_reader(settings.topics.queries, from_end=True)
    with closing(reader), closing(client.plain_producer()) as producer, repeated(answer):
        yield unanswered


def letter(topics: Topics, query: ConsumerRecord, key: bytes | None) -> ProducerRecord:
    """The dead letter of a query; `key` is the id of the query that it names."""
    why = {
        names.TOPIC: topics.queries,
        names.PARTITION: "0",
        names.OFFSET: str(query.offset),
        names.CLASS: "invalid",
        names.MESSAGE: "limit: -1",
    }
    headers = tuple((name, said.encode()) for name, said in why.items())
    return ProducerRecord(topics.dead_letters, key, query.value or b"", headers)


@pytest.mark.both_clients
def test_every_query_has_its_own_answer(kafka_settings: KafkaSettings) -> None:
    """Each query's result comes once, others' don't, and no more than asked for are unanswered at a time."""
    connected = QueryClient.connect(kafka_client(kafka_settings), kafka_settings.topics)
    with answering(kafka_settings) as unanswered, connected as query_client:
        answers: list[Any] = list(query_client.ask(QUERIES, WITHIN, most=7))
    assert sorted(answers, key=orjson.dumps) == sorted(QUERIES, key=orjson.dumps)
    assert max(unanswered) <= 7


def test_what_was_answered_before_is_not_heard(kafka_settings: KafkaSettings) -> None:
    """A result that was there before the query client isn't taken for an answer; without one, it says so."""
    client = kafka_client(kafka_settings)
    with closing(client.plain_producer()) as producer:
        producer.send([ProducerRecord(kafka_settings.topics.results, None, orjson.dumps(QUERIES[0]))])
    with (
        QueryClient.connect(client, kafka_settings.topics) as query_client,
        pytest.raises(FatalDelivery, match="no answer to 1 queries in 1 s"),
    ):
        list(query_client.ask(QUERIES[:1], 1))


def test_a_dead_letter_is_the_answer_to_a_query_without_a_result(kafka_settings: KafkaSettings) -> None:
    """It comes at once, as a refusal that says class and reason; a dead letter of another query is none."""
    topics = kafka_settings.topics

    def refuse() -> None:
        for record in reader.poll(0.02):
            producer.send([letter(topics, record, key) for key in (b"x", record.key)])

    client = kafka_client(kafka_settings)
    connected = QueryClient.connect(client, topics)
    reader, producer = client.bounded_reader(topics.queries, from_end=True), client.plain_producer()
    with closing(reader), closing(producer), repeated(refuse), connected as query_client:
        [answer] = query_client.ask(QUERIES[:1], WITHIN)
    assert (answer["query_id"], answer["status"]) == ("q0", "invalid")
    assert answer["error"] == {"class": "invalid", "field": None, "reason": "limit: -1"}


@pytest.mark.both_clients
def test_a_result_that_becomes_visible_after_its_dead_letter_is_the_answer(kafka_settings: KafkaSettings) -> None:
    """The client waits for the results that were written before it saw the dead letter, however late they are read."""
    topics = kafka_settings.topics
    client = kafka_client(kafka_settings)
    transaction = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_settings.bootstrap_servers, "transactional.id": f"late-{topics.results}"}
    )
    transaction.init_transactions(WITHIN)

    def refuse() -> None:
        for record in reader.poll(0.02):
            transaction.begin_transaction()
            transaction.produce(topics.results, orjson.dumps({"query_id": "q0", "status": "invalid", "limit": "late"}))
            transaction.flush(WITHIN)
            producer.send([letter(topics, record, record.key)])

    class Committing(QueryClient):
        """Ends the transaction only when the client has looked at what it may answer."""

        looked = 0

        def _has_read(self, ends: ResultEnds) -> bool:
            read = super()._has_read(ends)
            self.looked += 1
            if self.looked == 3:
                transaction.commit_transaction(WITHIN)
            return read

    reader, producer = client.bounded_reader(topics.queries, from_end=True), client.plain_producer()
    connected = Committing.connect(client, topics)
    with closing(reader), closing(producer), repeated(refuse), connected as query_client:
        [answer] = query_client.ask(QUERIES[:1], WITHIN)
    assert answer == {"query_id": "q0", "status": "invalid", "limit": "late"}
    assert query_client.looked >= 3


def test_a_query_that_the_topic_does_not_take_is_said(kafka_settings: KafkaSettings) -> None:
    """It is an error at once, not a wait for an answer that never comes."""
    large = {"query_id": "large", "text": random.Random(0).randbytes(1_500_000).hex()}
    began = time.monotonic()
    with (
        QueryClient.connect(kafka_client(kafka_settings), kafka_settings.topics) as query_client,
        pytest.raises(FatalDelivery, match="larger than the topic takes"),
    ):
        list(query_client.ask([large], 10 * WITHIN))
    assert time.monotonic() - began < 10 * WITHIN


def test_without_the_results_topic_it_is_named(kafka_settings: KafkaSettings) -> None:
    """The error names the topic and the command that creates it."""
    topics = kafka_settings.topics.model_copy(update={"results": "nowhere"})
    with (
        pytest.raises(DeliveryError, match="topic nowhere doesn't exist; `rankstream topics`"),
        QueryClient.connect(kafka_client(kafka_settings), topics),
    ):
        pass
