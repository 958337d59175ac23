"""The schema registry, and the stage that reads events by the schemas whose ids they bring.

Rules:
- A schema is fetched once, and CACHED of them are kept.
- An id that the registry does not know is asked for again after GRACE seconds, for a copy of the registry may be behind
  it. The message is then rejected, as all with this id are for UNKNOWN_FOR seconds.
- Every other failure is waited out, a wrong password too: the message waits, in time the flow does, and nothing is
  lost.
- A message keeps its bytes. Its JSON is kept with them.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from typing_extensions import override

from operators.caching.bounded import BoundedCache
from operators.delivery import credentials
from operators.delivery.avro import MAX_SCHEMA, AvroSchema, NotAvro
from operators.runtime.dispatcher import AsyncStage, BatchKey, Bounds
from operators.wire.message import Message
from schemas.errors import BackendError, ConfigError, DeadLetterClass, InputError, RetriableDelivery
from schemas.event import PREFIX, schema_id
from schemas.settings.delivery import SchemaRegistrySettings

log = structlog.stdlib.get_logger(__name__)

CACHED: Final = 1000
"""Most schemas that are kept."""

GRACE: Final = 0.5
"""Seconds until the registry is asked again for an id that it does not know."""

UNKNOWN_FOR: Final = 10.0
"""Seconds for which an id counts as unknown."""

_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_NOT_FOUND: Final = 404
_REFUSED: Final = frozenset({401, 403})
_UNKNOWN: Final = frozenset({40401, 40402, 40403})
"""Codes of the registry for a subject, a version and a schema that are not there."""


class WriterSchema(NamedTuple):
    """A schema as it is needed: of Avro, of JSON (None), or not to be used for a `problem`."""

    id: int
    avro: AvroSchema | None = None
    problem: str | None = None

    def to_json(self, payload: bytes, max_bytes: int) -> bytes:
        """The payload as JSON. Raises InputError, `too_large` for Avro that is more than `max_bytes` of JSON."""
        problem = self.problem
        if problem is None:
            try:
                return payload if self.avro is None else self.avro.to_json(payload, max_bytes)
            except NotAvro as error:
                problem = str(error)
        raise InputError(DeadLetterClass.SCHEMA, f"the schema {self.id}: {problem}")


class SchemaRegistry:
    """The schemas of a registry, by their ids. For the event loop's thread; `url` names the registry in messages.

    Raises ConfigError without the extra, or for a file that can't be used.
    """

    def __init__(self, settings: SchemaRegistrySettings) -> None:
        assert settings.url is not None
        self.url = settings.url
        self._client = _client(settings)
        self._schemas: BoundedCache[int, WriterSchema] = BoundedCache(CACHED)
        self._unknown: BoundedCache[int, WriterSchema] = BoundedCache(CACHED, ttl=UNKNOWN_FOR)
        self._failing = False

    async def schema(self, id_: int) -> WriterSchema:
        """The schema of this id, however long the registry takes to answer."""
        found = self._schemas.get(id_) or self._unknown.get(id_, time.monotonic())
        if found is not None:
            return found
        found = await self._fetch(id_)
        if found is None:
            await asyncio.sleep(GRACE)
            found = await self._fetch(id_)
        if found is None:
            found = WriterSchema(id_, problem=f"unknown to {self.url}")
            self._unknown.put(id_, found, time.monotonic())
        else:
            self._schemas.put(id_, found)
        return found

    async def check(self) -> None:
        """Ask for the names of the subjects. Raises RetriableDelivery."""
        await _ask(self._client.get_subjects)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _fetch(self, id_: int) -> WriterSchema | None:
        found = await self._until_answered(partial(self._client.get_schema, id_))
        if found is None:
            return None
        kind = found.schema_type or "AVRO"
        if kind == "JSON":
            return WriterSchema(id_)
        if kind != "AVRO":
            cure = "have the producer write Avro, or JSON by a JSON Schema"
            return WriterSchema(id_, problem=f"its format {kind} is not read: {cure}")
        references: dict[tuple[str, int], str] = {}
        try:
            await self._collect(found, references)
            # A long schema takes a while.
            avro = await asyncio.to_thread(AvroSchema, found.schema_str, list(references.values()))
            return WriterSchema(id_, avro)
        except NotAvro as error:
            return WriterSchema(id_, problem=str(error))
        except RecursionError:
            return WriterSchema(id_, problem="it names others in a chain that is too long")
        finally:
            # Of what the client keeps there is no bound.
            await self._client.clear_caches()

    async def _collect(self, schema: Any, found: dict[tuple[str, int], str]) -> None:
        """Add the schemas that this one names, each before those that name it; a registry has no circles of them."""
        for each in schema.references or ():
            key = (each.subject, each.version)
            if key in found:
                continue
            if len(found) == CACHED:
                raise NotAvro(f"it names more than {CACHED} others")
            version = await self._until_answered(partial(self._client.get_version, *key, deleted=True))
            if version is None:
                raise NotAvro(f"it names version {each.version} of {each.subject}, which the registry does not know")
            await self._collect(version.schema, found)
            found[key] = version.schema.schema_str
        if sum(map(len, found.values()), len(schema.schema_str)) > MAX_SCHEMA:
            raise NotAvro(f"it has more than {MAX_SCHEMA} characters with those that it names")

    async def _until_answered(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        pause = _PAUSE
        while True:
            try:
                found = await _ask(ask)
            except RetriableDelivery as error:
                log.warning("schema registry is failing", url=self.url, reason=str(error), retry_in_s=pause)
                self._failing = True
            else:
                if self._failing:
                    log.info("schema registry is well again", url=self.url)
                    self._failing = False
                return found
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _ask(ask: Callable[[], Awaitable[Any]]) -> Any:
    """The answer; None if the registry does not know what was asked for. Raises RetriableDelivery."""
    try:
        return await ask()
    except Exception as error:  # noqa: BLE001  the types of its transport's errors differ from version to version
        status = getattr(error, "http_status_code", None)
        if status == _NOT_FOUND and getattr(error, "error_code", None) in _UNKNOWN:
            return None
        cure = ": correct its username and password" if status in _REFUSED else ""
        said = f"HTTP {status}{cure}" if status is not None else f"no answer: {type(error).__name__}"
        raise RetriableDelivery(f"kafka.schema_registry: {said}") from None


def _client(settings: SchemaRegistrySettings) -> Any:
    try:
        import fastavro  # noqa: F401
        from confluent_kafka.schema_registry import AsyncSchemaRegistryClient
    except ImportError:  # They are an extra.
        raise ConfigError(
            "kafka.schema_registry: install the extra registry, pip install 'rankstream[registry]'"
        ) from None
    section = "kafka.schema_registry"
    credentials.check_files(settings, section)
    given: dict[str, Any] = {
        "url": settings.url,
        "timeout": settings.request_timeout,
        # We try again ourselves.
        "max.retries": 0,
    }
    if settings.ca_file is not None:
        given["ssl.ca.location"] = str(settings.ca_file)
    if settings.username is not None:
        given["basic.auth.user.info"] = f"{settings.username}:{credentials.secret(settings, section, 'password')}"
    return AsyncSchemaRegistryClient(given)


@dataclass(frozen=True)
class Deserialiser(AsyncStage[int | None, WriterSchema | None]):
    """Reads each message behind the id of a schema by that schema, as JSON of at most `max_bytes`. The registry is
    waited for without a bound.

    `ordered`: no message overtakes another, so that all pass through the same calls. Otherwise only those wait whose
    schema is not there.
    """

    step = "deserialise"
    bounds = Bounds(timeout=math.inf, max_batch=64, max_concurrency=1)

    registry: SchemaRegistry
    max_bytes: int
    ordered: bool = field(kw_only=True)

    def request(self, item: Message) -> tuple[BatchKey, int | None] | None:
        id_ = schema_id(_frame_of(item))
        if self.ordered:
            return None, id_
        return (id_, id_) if id_ is not None else None

    @override
    async def call(self, batch_key: BatchKey, ids: Sequence[int | None], timeout: float) -> list[WriterSchema | None]:
        wanted = list(dict.fromkeys(id_ for id_ in ids if id_ is not None))
        schemas = await asyncio.gather(*map(self.registry.schema, wanted))
        found = dict(zip(wanted, schemas, strict=True))
        return [None if id_ is None else found[id_] for id_ in ids]

    def on_result(self, item: Message, outcome: WriterSchema | BackendError | None) -> Message:
        if isinstance(outcome, BackendError):
            # A defect of ours: every failure of the registry is waited out.
            raise InputError(DeadLetterClass.INTERNAL, str(outcome))
        framed = _frame_of(item)
        if outcome is None or framed is None:
            return item
        return replace(item, deserialised=outcome.to_json(framed[PREFIX:], self.max_bytes))


def _frame_of(message: Message) -> bytes | None:
    return message.value if message.value is not None else message.key
