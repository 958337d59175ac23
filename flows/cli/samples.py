"""Samples: documents to look at, of a file, a topic or a collection, and the configuration's words for their place."""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import orjson

from flows.assembly.clients import InProcess
from flows.assembly.collections import open_client
from flows.assembly.delivery import connect
from flows.cli.ingestion import read_topic
from flows.cli.records import Record, Records
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.collections.notes import OURS
from operators.delivery.client import ConsumerRecord
from operators.mapping.collection import Layout, map_collection
from operators.mapping.inference import DocumentMapping, infer
from operators.mapping.profile import MOST
from operators.wire.message import Message, Origin
from operators.wire.parsing import parse_message
from schemas.document import MAX_DOCUMENT_PARTS
from schemas.errors import BackendError, ConfigError, DeadLetterClass, InputError
from schemas.settings import Settings, load

_PAGE: Final = 250
_TIMEOUT: Final = 60.0
"""Seconds for a page of points, or for a record to come."""

_VECTORS: Final = 16
"""Points whose sparse vectors are looked at."""

SERVERS: Final = "localhost:9092"
_FILE: Final[Mapping[str, Any]] = {
    "kafka": {"bootstrap_servers": SERVERS},
    "documents": {},
    "qdrant": {"path": "./index", "vectors": {"fuzzy": "fuzzy"}},
}
"""Sections of documents that come from a file."""


@dataclass(frozen=True)
class Sample:
    """The first documents of a source, in words its name and form; `skipped` of `total` are none, with the reasons.

    `plain`: texts are plain, whatever they look like. `sections` of the configuration say where the documents are.
    """

    name: str
    form: str
    documents: Sequence[dict[str, Any]]
    skipped: Sequence[str]
    total: int
    plain: bool = False
    sections: Mapping[str, Any] = field(default_factory=lambda: _FILE)
    layout: Layout | None = None

    @classmethod
    def of_file(cls, records: Records, name: str) -> Self:
        """The first documents of a file or folder; all of it is looked through for what is none."""
        documents = [document for _, document in islice(records.usable(), MOST)]
        wrong, total = records.survey()
        return cls(name, records.form, documents, [*map(str, wrong)], total, plain=records.path.is_dir())

    @classmethod
    def of_topic(cls, topic: str, servers: str) -> Self:
        """The first documents of each partition. Raises ConfigError and DeliveryError."""
        settings = load(None, {"kafka": {"bootstrap_servers": servers, "topics": {"documents": topic}}}, index=Path())
        records, most = read_topic(connect(settings.kafka), topic, _TIMEOUT, MOST), settings.limits.max_document_bytes
        found = [_read_record(each, most) for each in records if each.value is not None]
        skipped = [f"{place}: {each}" for place, each in found if isinstance(each, InputError)]
        documents = [each for _, each in found if not isinstance(each, InputError)]
        place = {"bootstrap_servers": servers, "topics": {"documents": topic}}
        return cls(topic, "a topic", documents, skipped, len(found), sections={**_FILE, "kafka": place})

    @classmethod
    def of_collection(cls, name: str, url: str) -> Self:
        """The first points of a collection. Raises ConfigError and BackendError."""
        place = {"url": url, "destinations": {"default": name}}
        settings = load(None, {"qdrant": place})
        with closing(InProcess(settings)) as in_process:
            info, payloads, layout = _read_collection(settings, in_process, name)
        if OURS in info.metadata:
            raise ConfigError(f"{name}: rankstream's own: look at its documents, in a file or the documents topic")
        sections = {"kafka": {"bootstrap_servers": SERVERS}, "qdrant": place}
        further = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}
        form = f"a collection of {info.points} points"
        return cls(name, form, payloads, (), len(payloads), sections={**sections, **further}, layout=layout)

    def infer(self, given: Mapping[str, str] | None = None) -> DocumentMapping:
        """The mapping; `given` has the columns of roles, "" for none. Raises InputError without a document."""
        if not self.documents:
            why = f": {self.skipped[0]}" if self.skipped else ""
            raise InputError(DeadLetterClass.INVALID, f"{self.name}: there is no document in it{why}")
        layout, given = self.layout, given or {}
        if layout is not None and len(layout.ids) == 1:
            given = {**given, "id": ""}
        mapping = infer(self.documents, time.time(), markup=not self.plain, given=given, stored=layout is not None)
        return mapping if layout is None else map_collection(mapping, layout)


def _read_record(record: ConsumerRecord, max_bytes: int) -> Record:
    """A record as the indexing flow reads it; one without a value deletes, and is no document."""
    place = f"partition {record.partition.partition}, offset {record.offset}"
    origin = Origin(*record.partition, record.offset, 0)
    stamps = record.timestamp, record.timestamp, 0.0
    try:
        message = Message(origin, record.key, record.value, record.headers or (), *stamps)
        return place, parse_message(message, max_bytes, MAX_DOCUMENT_PARTS).event
    except InputError as error:
        return place, error


def _read_collection(
    settings: Settings, in_process: InProcess, name: str
) -> tuple[CollectionInfo, Sequence[dict[str, Any]], Layout]:
    async def read(client: QdrantClient) -> tuple[CollectionInfo, Sequence[dict[str, Any]], Layout]:
        client = client.without_retries()
        scroll = partial(client.scroll, name, timeout=_TIMEOUT)
        info, found = await client.collection_info(name, timeout=_TIMEOUT), await scroll(limit=_PAGE)
        records = list(found.records)
        while found.next_offset is not None and len(records) < MOST:
            found = await scroll(limit=_PAGE, offset=found.next_offset)
            records += found.records
        sparse = {}
        for vector in info.sparse_vectors:
            some = await scroll(limit=_VECTORS, fields=False, vector=vector)
            numbers = (number for each in some.records if each.vector for number in each.vector["indices"])
            sparse[vector] = max(numbers, default=0)
        ids = frozenset("integer" if each.id.isdecimal() else "uuid" for each in records)
        indexes = {path: index.get("data_type", "") for path, index in info.indexes.items()}
        layout = Layout(name, info.points, ids, info.vectors, sparse, indexes)
        return info, [_open_strings(each.payload) for each in records], layout

    with open_client(settings, in_process) as ask:
        try:
            return ask(read, 2 * _TIMEOUT)
        except BackendError as error:
            if error.status != 404:
                raise
            raise ConfigError(f"--collection: {name}: {settings.qdrant.url} has no collection of this name") from None


def _open_strings(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with the fields of objects that are written as JSON in strings, by their paths: `name#field`."""
    opened: dict[str, Any] = {}
    for name, value in payload.items():
        inner = None
        if isinstance(value, str) and value.startswith("{"):
            with suppress(orjson.JSONDecodeError):
                inner = orjson.loads(value)
        opened |= {f"{name}#{each}": inner[each] for each in inner} if isinstance(inner, dict) else {name: value}
    return opened
