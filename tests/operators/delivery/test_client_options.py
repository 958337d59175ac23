"""Options of the Kafka client library: what is given reaches it, and what it doesn't have is said."""

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import confluent_kafka
import kafka
import pytest

from operators.delivery import librdkafka
from operators.delivery.client import ProducerRecord
from operators.delivery.librdkafka import Librdkafka
from schemas.errors import ConfigError
from schemas.settings import KafkaSettings
from tests.operators.delivery.members import MAX_BATCH, REPLICA, Make, member, produce

GIVEN: dict[str, Any] = {
    "rack": "zone-a",
    "options": {"reconnect.backoff.max.ms": 2000, "retry.backoff.ms": 7},
    "consumer_options": {"fetch.min.bytes": 2, "retry.backoff.ms": 8},
    "producer_options": {"linger.ms": 3},
}
CONSUMING = {"client.rack": "zone-a", "reconnect.backoff.max.ms": 2000, "fetch.min.bytes": 2, "retry.backoff.ms": 8}
PRODUCING = {"reconnect.backoff.max.ms": 2000, "retry.backoff.ms": 7, "linger.ms": 3}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Mapping[str, Any]]]:
    """The kind and the options of each consumer and producer that is made of a library, which is real."""
    noted: list[tuple[str, Mapping[str, Any]]] = []

    def noting(kind: str, real: Any) -> Any:
        class Noting(real):  # type: ignore[misc]
            def __init__(self, *config: Any, **options: Any) -> None:
                noted.append((kind, {name.replace("_", "."): value for name, value in (*config, options)[0].items()}))
                super().__init__(*config, **options)

        return Noting

    monkeypatch.setattr(librdkafka.connection, "Consumer", noting("consumer", confluent_kafka.Consumer))
    monkeypatch.setattr(librdkafka.producer, "Producer", noting("producer", confluent_kafka.Producer))
    monkeypatch.setattr(kafka, "KafkaConsumer", noting("consumer", kafka.KafkaConsumer))
    monkeypatch.setattr(kafka, "KafkaProducer", noting("producer", kafka.KafkaProducer))
    return noted


def test_options_reach_consumers_and_producers(
    make: Make, settings: KafkaSettings, made: list[tuple[str, Mapping[str, Any]]]
) -> None:
    """Every one that delivers or reads has the options of all and of its kind, over our own, and works."""
    produce(settings, 1)
    client = make(KafkaSettings.model_validate({**settings.model_dump(), **GIVEN, "client": make(settings).name}))
    made.clear()
    with member(client, settings) as reader, closing(client.plain_producer()) as producer:
        reader.start(0)
        reader.until(lambda: len(reader.records) == 1)
        producer.send([ProducerRecord(settings.topics.results, b"k", b"v")])
    client.transactional_producer(REPLICA, MAX_BATCH).close()
    client.bounded_reader(settings.topics.results).close()
    client.tail(settings.topics.results).close()
    kinds = [kind for kind, _ in made]
    assert (kinds.count("consumer"), kinds.count("producer")) == (5, 2)
    for kind, options in made:
        wanted = CONSUMING if kind == "consumer" else PRODUCING
        assert {name: str(options[name]) for name in wanted} == {name: str(value) for name, value in wanted.items()}


@pytest.mark.parametrize("key", ["options", "consumer_options", "producer_options"])
def test_an_option_that_the_library_does_not_have_is_named(make: Make, key: str) -> None:
    """Before anything is read or written."""
    client = make(KafkaSettings()).name
    settings = KafkaSettings.model_validate({"client": client, key: {"no.such.thing": 1}})

    def use() -> None:
        made = make(settings)
        made.plain_producer() if key == "producer_options" else made.consumer()

    with pytest.raises(ConfigError, match=r"kafka\.options: .*no.such.thing"):
        use()


def test_a_value_that_the_library_does_not_take_is_said() -> None:
    """In its own words."""
    with pytest.raises(ConfigError, match=r"kafka\.options: .*fetch\.min\.bytes"):
        Librdkafka(KafkaSettings(consumer_options={"fetch.min.bytes": "few"}))
