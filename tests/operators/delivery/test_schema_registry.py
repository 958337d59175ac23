"""Events behind the id of a schema: the registry is a real HTTP server here, and its client Confluent's own."""

import asyncio
import json
import math
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from operators.delivery import schema_registry
from operators.delivery.avro import MAX_SCHEMA
from operators.delivery.schema_registry import Deserialiser, SchemaRegistry
from operators.wire.message import Message
from operators.wire.parsing import parse_refused
from schemas.errors import ConfigError, DeadLetterClass, InputError, RetriableDelivery
from schemas.settings import DocumentSettings
from schemas.settings.delivery import SchemaRegistrySettings
from tests.kafka.registry import Registry, basic, framed
from tests.operators.delivery.test_avro import record, written
from tests.operators.indexing.documents import decoder as document_decoder
from tests.operators.indexing.documents import read
from tests.operators.samples import decoder, message

QUERY: Final = record(query_id="string", text=["null", "string"], limit=["null", "int"])
ROW: Final = record(sku="long", description=["null", "string"], __deleted="string")
KEY: Final = record(sku="long")
MAX_BYTES: Final = 10_000


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that runs."""
    with Registry() as running:
        yield running


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "GRACE", 0.01)


def using(url: str, work: Callable[[SchemaRegistry], Awaitable[Any]], **settings: Any) -> Any:
    """Run `work` with a client of the registry at `url`; what it returns."""

    async def run() -> Any:
        made = SchemaRegistry(SchemaRegistrySettings.model_validate({"url": url, **settings}))
        try:
            return await work(made)
        finally:
            await made.aclose()

    return asyncio.run(run())


async def until(holds: Callable[[], bool]) -> None:
    """Return once it holds."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  the server is in another thread
            await asyncio.sleep(0.01)


def deserialise(url: str, *messages: Message, ordered: bool = False, **settings: Any) -> list[Message]:
    """The messages behind the stage. Raises InputError for the first that is refused."""

    async def work(made: SchemaRegistry) -> list[Message]:
        stage = Deserialiser(made, MAX_BYTES, ordered=ordered)
        out = []
        for each in messages:
            if (asked := stage.request(each)) is None:
                out.append(each)
                continue
            batch_key, request = asked
            [outcome] = await stage.call(batch_key, [request], 1)
            out.append(stage.on_result(each, outcome))
        return out

    found: list[Message] = using(url, work, **settings)
    return found


def refused(registry: Registry, value: bytes) -> str:
    """The message of the refusal, which is of the class `schema`."""
    with pytest.raises(InputError) as caught:
        deserialise(registry.base_url, message(value))
    assert caught.value.kind is DeadLetterClass.SCHEMA
    return str(caught.value)


def test_a_query_in_avro_is_the_query_of_its_json(registry: Registry) -> None:
    """The message keeps its bytes for a dead letter, and its sender is legible."""
    id_ = registry.register(json.dumps(QUERY))
    sent = message(framed(id_, written(QUERY, {"query_id": "q", "text": "blue", "limit": None})))
    [found] = deserialise(registry.base_url, sent)
    assert (found.value, found.origin) == (sent.value, sent.origin)
    asked = decoder()(found).asked
    assert (asked.event.query_id, asked.text) == ("q", "blue")
    assert parse_refused(found).query_id == "q"


def test_a_row_and_a_tombstone_in_avro_are_those_of_debezium(registry: Registry) -> None:
    """The key of a message without a value has a schema of its own."""
    columns = {"id": "sku", "text": "description"}
    rows = document_decoder(documents=DocumentSettings(envelope="debezium", columns=columns))
    id_, key_id = registry.register(json.dumps(ROW)), registry.register(json.dumps(KEY), subject="keys")
    row = framed(id_, written(ROW, {"sku": 7, "description": "A lamp.", "__deleted": "false"}))
    gone = message(None, key=framed(key_id, written(KEY, {"sku": 7})))
    read_messages = deserialise(registry.base_url, message(row), gone, ordered=True)
    upsert, delete = (read(rows, each) for each in read_messages)
    assert (upsert.event.op, upsert.event.id, upsert.event.text) == ("upsert", "7", "A lamp.")
    assert (delete.event.op, delete.event.id) == ("delete", "7")


def test_json_is_read_behind_the_id_of_its_schema(registry: Registry) -> None:
    """And without an id the registry is not asked, in order too."""
    id_ = registry.register('{"type": "object"}', "JSON")
    event = b'{"query_id": "q", "text": "t"}'
    found = deserialise(registry.base_url, message(framed(id_, event)), message(event), ordered=True)
    assert [decoder()(each).asked.event.query_id for each in found] == ["q", "q"]
    assert list(registry.paths) == [f"/schemas/ids/{id_}"]
    free = Deserialiser(SchemaRegistry(SchemaRegistrySettings(url=registry.base_url)), MAX_BYTES, ordered=False)
    assert free.request(message(event)) is None


def test_a_schema_is_fetched_once(registry: Registry) -> None:
    """The schemas that it names, too."""
    registry.register(json.dumps(record(x="int") | {"name": "Inner"}), subject="inner")
    names_inner = [{"name": "Inner", "subject": "inner", "version": 1}]
    id_ = registry.register(json.dumps(record(query_id="string", i="Inner")), references=names_inner)
    whole = record(query_id="string", i=record(x="int") | {"name": "Inner"})
    value = framed(id_, written(whole, {"query_id": "q", "i": {"x": 3}}))
    found = deserialise(registry.base_url, message(value), message(value))
    assert [each.json for each in found] == [b'{"query_id":"q","i":{"x":3}}'] * 2
    assert registry.paths == {f"/schemas/ids/{id_}": 1, "/subjects/inner/versions/1": 1}


def test_an_unknown_id_is_asked_for_twice_and_named(registry: Registry) -> None:
    """A copy of a registry may be behind it; then the id is unknown for a while."""
    assert refused(registry, framed(77, b"x")) == f"the schema 77: unknown to {registry.base_url}"
    assert registry.paths == {"/schemas/ids/77": 2}

    async def twice(made: SchemaRegistry) -> None:
        await made.schema(77)
        await made.schema(77)

    using(registry.base_url, twice)
    assert registry.paths == {"/schemas/ids/77": 4}


def test_what_is_not_read_is_said_with_the_cure(registry: Registry) -> None:
    """Protobuf, a payload of another schema, and a schema that cannot be used."""
    protobuf = registry.register('syntax = "proto3";', "PROTOBUF")
    cure = "have the producer write Avro, or JSON by a JSON Schema"
    assert refused(registry, framed(protobuf, b"")) == f"the schema {protobuf}: its format PROTOBUF is not read: {cure}"
    avro = registry.register(json.dumps(QUERY))
    assert refused(registry, framed(avro, b"\x02")).startswith(f"the schema {avro}: not a value of it: EOFError")
    node = registry.register(json.dumps(record(next=["null", "event"])))
    assert refused(registry, framed(node, b"")) == f"the schema {node}: event holds itself, which is not read"


def test_a_value_that_is_long_as_json_is_too_large(registry: Registry) -> None:
    """The stage refuses it; a schema that is too long is not used either, with all that it names."""
    symbol = "x" * 2000
    enums = record(a={"type": "array", "items": {"type": "enum", "name": "e", "symbols": [symbol]}})
    id_ = registry.register(json.dumps(enums))
    with pytest.raises(InputError, match=f"value: more than {MAX_BYTES} bytes as JSON") as caught:
        deserialise(registry.base_url, message(framed(id_, written(enums, {"a": [symbol] * 10}))))
    assert caught.value.kind is DeadLetterClass.TOO_LARGE

    half = record(x="int") | {"name": "Half", "doc": "x" * (MAX_SCHEMA // 2)}
    registry.register(json.dumps(half), subject="half")
    names_half = [{"name": "Half", "subject": "half", "version": 1}]
    whole = record(h="Half") | {"doc": "x" * (MAX_SCHEMA // 2)}
    id_ = registry.register(json.dumps(whole), references=names_half)
    said = f"it has more than {MAX_SCHEMA} characters with those that it names"
    assert refused(registry, framed(id_, b"")) == f"the schema {id_}: {said}"


@pytest.mark.slow
def test_a_long_chain_of_schemas_is_refused(registry: Registry) -> None:
    """Each names the next; no message of the first ends the process, or is a defect of ours."""
    names: Any = ()
    for place in range(900):
        type_ = f"R{place - 1}" if place else "int"
        id_ = registry.register(
            json.dumps(record(x=type_) | {"name": f"R{place}"}), subject=f"s{place}", references=names
        )
        names = [{"name": f"R{place}", "subject": f"s{place}", "version": 1}]
    said = {"it names others in a chain that is too long", "not a schema of Avro: RecursionError"}
    assert refused(registry, framed(id_, b"")).removeprefix(f"the schema {id_}: ") in said


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_a_registry_that_fails_is_waited_for(registry: Registry, status: int) -> None:
    """Whatever its status: another 404 than that of an id is a wrong address. The log says so, and the end."""
    id_ = registry.register(json.dumps(QUERY))
    registry.status = status

    async def work(made: SchemaRegistry) -> Any:
        asking = asyncio.ensure_future(made.schema(id_))
        await until(lambda: sum(registry.paths.values()) >= 3)
        assert not asking.done()
        registry.status = None
        return await asking

    with capture_logs() as lines:
        found = using(registry.base_url, work)
    assert found.problem is None
    *failing, well = [line["event"] for line in lines]
    assert (set(failing), well) == ({"schema registry is failing"}, "schema registry is well again")
    assert all("retry_in_s" in line for line in lines[:-1])
    assert f"HTTP {status}" in lines[0]["reason"]


def test_an_answer_that_does_not_come_or_is_none_is_asked_for_again(registry: Registry) -> None:
    """Within the time that a request has, and others are served meanwhile."""
    id_ = registry.register(json.dumps(QUERY))
    other = registry.register("{}", "JSON")

    async def work(made: SchemaRegistry) -> Any:
        await made.schema(other)
        registry.open.clear()
        asking = asyncio.ensure_future(made.schema(id_))
        await until(lambda: registry.paths[f"/schemas/ids/{id_}"] >= 2)
        await made.schema(other)
        registry.body = b"<html>"
        registry.open.set()
        await until(lambda: registry.paths[f"/schemas/ids/{id_}"] >= 4)
        registry.body = None
        return await asking

    assert using(registry.base_url, work, request_timeout=0.2).avro is not None


def test_credentials_are_sent_and_named_where_they_are_wrong(registry: Registry) -> None:
    """User and password; no secret is in a message."""

    async def check(made: SchemaRegistry) -> None:
        await made.check()

    registry.authorization = basic("key", "canary:secret")
    using(registry.base_url, check, username="key", password="canary:secret")
    with pytest.raises(RetriableDelivery) as caught:
        using(registry.base_url, check, username="key", password="canary")
    said = "kafka.schema_registry: HTTP 401: correct its username and password"
    assert str(caught.value) == said


def test_an_address_without_a_server_is_no_answer() -> None:
    """The type of the client's error says why."""

    async def check(made: SchemaRegistry) -> None:
        await made.check()

    with pytest.raises(RetriableDelivery, match=r"kafka.schema_registry: no answer: ConnectError"):
        using("http://127.0.0.1:9", check)


def test_what_a_process_lacks_is_said_at_its_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The extra, and files that cannot be used."""
    with pytest.raises(ConfigError, match=r"kafka.schema_registry.ca_file: .*: No such file"):
        SchemaRegistry(SchemaRegistrySettings(url="http://localhost", ca_file=tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"kafka.schema_registry.password_file: .*: No such file"):
        SchemaRegistry(SchemaRegistrySettings(url="http://localhost", username="u", password_file=tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigError, match="install the extra registry"):
        SchemaRegistry(SchemaRegistrySettings(url="http://localhost"))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"username": "u", "ca_file": "c"}, "username, ca_file: no effect without url; remove, or set it"),
        ({"url": "http://a", "username": "u"}, "username and password, or password_file, need each other"),
        ({"url": "http://a", "password": "p"}, "username and password, or password_file, need each other"),
        ({"url": "http://u:p@a"}, "url"),
    ],
)
def test_settings_that_contradict_each_other_are_named(section: dict[str, Any], said: str) -> None:
    """Before anything starts."""
    with pytest.raises(ValueError, match=said):
        SchemaRegistrySettings.model_validate(section)


def test_documents_share_their_calls_and_queries_wait_for_their_own_schema() -> None:
    """So no document overtakes another, with a schema or without, and a query waits for no other's schema."""
    sent = [message(framed(1, b"")), message(framed(2, b"")), message(b"{}")]
    registry = SchemaRegistry(SchemaRegistrySettings(url="http://localhost"))
    ordered, free = Deserialiser(registry, MAX_BYTES, ordered=True), Deserialiser(registry, MAX_BYTES, ordered=False)
    assert [ordered.request(each) for each in sent] == [(None, 1), (None, 2), (None, None)]
    assert (ordered.bounds.max_concurrency, ordered.bounds.timeout) == (1, math.inf)
    assert [free.request(each) for each in sent] == [(1, 1), (2, 2), None]
