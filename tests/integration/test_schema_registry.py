"""Events in Avro on a real broker: Confluent's own serializer writes them, by a stand-in of a schema registry."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bench.kafka.broker import Broker
from bench.stubs import DIMENSION, stub_backends
from tests import qdrant_server
from tests.integration.deployment import Deployment, assert_each_once, wait_until
from tests.integration.test_indexing import Index
from tests.kafka.registry import Registry, basic, framed
from tests.operators.delivery.test_avro import logical, record, written
from tests.proxy import Proxy

QUERY: Final = record(
    query_id="string",
    text=["null", "string"],
    limit=["null", "int"],
    metadata=["null", {"type": "map", "values": "string"}],
)
TIME: Final = logical("long", "timestamp-millis")
ROW: Final = record(
    sku="long",
    description=["null", "string"],
    price=["null", logical("bytes", "decimal", precision=9, scale=2)],
    created_at=["null", TIME],
    __deleted="string",
    __source_ts_ms="long",
)
KEY: Final = record(sku="long")
KNOWN: Final = 100
"""The first id that the registry gives."""

SECRET: Final = "canary:secret"


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that knows one user."""
    with Registry(basic("rankstream", SECRET)) as running:
        yield running


def section(registry: Registry) -> dict[str, Any]:
    """The section of the configuration."""
    return {"url": registry.base_url, "username": "rankstream", "request_timeout": 0.5}


def produce(
    deployment: Deployment,
    registry: Registry,
    role: str,
    schema: Mapping[str, Any],
    values: Sequence[Mapping[str, Any] | None],
    keys: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Produce values in Avro, and keys if there are any, as an application does."""
    topic = deployment.names[role]
    client = SchemaRegistryClient({"url": registry.base_url, "basic.auth.user.info": f"rankstream:{SECRET}"})
    value_of, key_of = AvroSerializer(client, json.dumps(schema)), AvroSerializer(client, json.dumps(KEY))
    producer = Producer({"bootstrap.servers": deployment.broker.bootstrap})
    for number, value in enumerate(values):
        written = None if value is None else value_of(value, SerializationContext(topic, MessageField.VALUE))
        key = key_of(keys[number], SerializationContext(topic, MessageField.KEY)) if keys else None
        producer.produce(topic, written, key, partition=0)
    assert producer.flush(30) == 0


@pytest.fixture
def searching(
    broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], registry: Registry
) -> Iterator[Deployment]:
    """The search flow with the registry."""
    with (
        stub_backends(qdrant_latency=0.001, rerank_latency=0.001) as stubs,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": stubs.qdrant}}) as running,
    ):
        running.settings["kafka"]["schema_registry"] = section(registry)
        running.settings["limits"] = {"timeout": 60}
        running.environment["RANKSTREAM_KAFKA__SCHEMA_REGISTRY__PASSWORD"] = SECRET
        yield running


def test_queries_in_avro_are_answered_through_an_outage_of_the_registry(
    searching: Deployment, registry: Registry
) -> None:
    """Each once, in JSON. While the registry fails those wait whose schema is not there; an unknown id is refused."""
    flow = searching.start()
    first = [{"query_id": f"a{number}", "text": "blue lantern", "metadata": {"page": "7"}} for number in range(5)]
    produce(searching, registry, "queries", QUERY, first)
    answered = searching.output_records(5, settled=False)
    assert {each.value["query_id"] for each in answered} == {event["query_id"] for event in first}
    assert answered[0].value["metadata"] == {"page": "7"}

    changed = record(query_id="string", text="string")
    new = registry.register(json.dumps(changed), subject="changed")
    registry.status = 503
    unknown = framed(7, b"\x00")
    values = [
        framed(new, written(changed, {"query_id": "new", "text": "blue lantern"})),
        unknown,
        framed(KNOWN, written(QUERY, {"query_id": "known", "text": "blue lantern"})),
        b'{"query_id": "plain", "text": "blue lantern"}',
    ]
    searching.produce("queries", values)
    assert len(searching.output_records(7, settled=False)) == 7
    wait_until(lambda: "schema registry is failing" in flow.log.read_text())
    registry.status = None
    ended = searching.output_records(9)
    assert_each_once(searching, ended)
    assert {each.value["query_id"] for each in ended if each.kind == "result"} >= {"plain", "known", "new"}
    assert len(ended) == 9
    [letter] = [each for each in ended if each.kind == "schema"]
    assert letter.value["raw"] == unknown
    assert b"the schema 7: unknown to" in letter.headers["__connect.errors.exception.message"]
    assert flow.terminate() == 0
    assert SECRET not in flow.log.read_text()


@pytest.fixture
def index(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str], registry: Registry) -> Iterator[Index]:
    """The indexing flow of rows with the registry."""
    with qdrant_server.running(tmp_path / "engine") as qdrant, stub_backends() as stubs:
        host, port = qdrant.removeprefix("http://").split(":")
        with Proxy(host, int(port)) as proxy:
            sections = {
                "qdrant": {"url": qdrant, "dimension": DIMENSION},
                "embedder": {"kind": "openai", "url": stubs.embed},
                "documents": {"envelope": "debezium", "columns": {"id": "sku", "text": "description"}},
            }
            with Deployment.on(broker, tmp_path, topic_names, sections) as deployment:
                deployment.settings["kafka"]["schema_registry"] = section(registry)
                deployment.environment["RANKSTREAM_KAFKA__SCHEMA_REGISTRY__PASSWORD"] = SECRET
                yield Index(deployment, qdrant, proxy)


def test_rows_in_avro_are_indexed_in_order_after_an_outage_of_the_registry(index: Index, registry: Registry) -> None:
    """Rows, deletions and tombstones that came while the registry did not answer: nothing is lost."""
    deployment = index.deployment
    row = {"price": Decimal("9.50"), "created_at": datetime(2026, 1, 31, 8, tzinfo=UTC), "__deleted": "false"}
    rows: list[Mapping[str, Any] | None] = [
        {**row, "sku": number, "description": f"Lamp {number}.", "__source_ts_ms": 1_000 + number}
        for number in range(4)
    ]
    rows += [{"sku": 0, "__deleted": "true", "__source_ts_ms": 2_000}, None]
    keys = [{"sku": number} for number in (0, 1, 2, 3, 0, 1)]
    produce(deployment, registry, "documents", ROW, rows, keys)
    registry.open.clear()
    flow = deployment.start("index")
    wait_until(lambda: "schema registry is failing" in flow.log.read_text())
    assert deployment.watermarks() == {}
    registry.open.set()
    points = index.settled(6)
    assert {name: (each["text"], each["price"], each["created_at"]) for name, each in points.items()} == {
        "2": ("Lamp 2.", 9.5, "2026-01-31T08:00:00.000Z"),
        "3": ("Lamp 3.", 9.5, "2026-01-31T08:00:00.000Z"),
    }
    assert flow.terminate() == 0
    assert deployment.records("dead_letters") == []
