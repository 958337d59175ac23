"""Exports: the places that the documents of a file have in the index, and a comparison of both after it was sent.

The indexing flow keeps the later of two versions, and what was deleted up to a version stays deleted. No message says
so to the sender of a document: the index alone tells which of them it has.
"""

import math
from collections.abc import Collection
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

import orjson

from flows.assembly.clients import InProcess
from flows.assembly.collections import ask_collections
from flows.assembly.query import document_decoder
from flows.cli.records import Records
from operators.clients.qdrant.client import Filter, QdrantClient
from operators.collections.requirements import Surveyed
from operators.runtime.batching.policy import chunks
from operators.wire.message import Message, Origin
from schemas.document import VERSION
from schemas.errors import BackendError, InputError, invalid
from schemas.settings import Settings

Place = tuple[str, str]
"""A Qdrant collection, by its name in the configuration, and the id of a document's point in it."""

_PAGE: Final = 1_000
_TIMEOUT: Final = 60.0
_SHOWN: Final = 10


def read_places(export: Records, settings: Settings, namespace: str) -> set[Place]:
    """The places of an export's documents of a namespace, as the indexing flow makes them.

    A document that the flow would refuse keeps its place; one without an id has none. Raises InputError for a record
    that cannot be read, whose document would be missed, and for an export without a document of the namespace.
    """
    decoder, found, others = document_decoder(settings), set[Place](), set[str]()
    for _, each in export.objects():
        with suppress(InputError):
            document = decoder.delete(_message(each))
            if document.namespace == namespace:
                found.add((document.collection, document.point_id))
            else:
                others.add(document.namespace)
    if not found:
        which = f"; there are some of {', '.join(sorted(others)[:_SHOWN])}" if others else ""
        raise invalid("--not-in", f"no document of the namespace {namespace} is in it{which}", export.path.name)
    return found


class Unwritten(NamedTuple):
    """The numbers of sent documents that the index has not as they were sent."""

    replaced: int
    older: int
    deleted: int

    def __str__(self) -> str:
        reasons = ("replaced by another of the same id", "older than that in the index", "deleted before, or expired")
        return ", ".join(f"{number} {why}" for number, why in zip(self, reasons, strict=True) if number)


def find_unwritten(export: Records, settings: Settings, rejected: Collection[str]) -> Unwritten | None:
    """Compare the upserts of an export, without the `rejected` places in it, with the index; None if it can't be read.

    A document without a time of change is as late as its message, and later than what was there.
    """
    if settings.qdrant.path is not None:
        # The process of the flow has it open.
        return None
    decoder, count, latest = document_decoder(settings), 0, dict[str, dict[str, float]]()
    for where, each in export.usable():
        with suppress(InputError):
            document = decoder(_message(each))
            if document.event.op == "upsert" and where not in rejected:
                version = math.inf if document.event.updated_at is None else document.version
                there = latest.setdefault(document.collection, {})
                there[document.point_id] = max(version, there.get(document.point_id, version))
                count += 1

    async def compare(client: QdrantClient, each: Surveyed, _: Filter) -> tuple[int, int]:
        older = deleted = 0
        sent = latest[each.name]
        for ids in chunks([*sent], _PAGE):
            found = await client.retrieve(each.physical, ids, (VERSION,), timeout=_TIMEOUT)
            deleted += len(ids) - len(found)
            older += sum(payload.get(VERSION, -math.inf) > sent[id_] for id_, payload in found.items())
        return older, deleted

    try:
        with closing(InProcess(settings)) as in_process:
            found = ask_collections(settings, in_process, {name: [{}] for name in latest}, compare)
    except (BackendError, TimeoutError):
        return None
    replaced = count - sum(map(len, latest.values()))
    return Unwritten(replaced, sum(older for older, _ in found), sum(deleted for _, deleted in found))


def _message(document: Any) -> Message:
    return Message(Origin("", 0, 0, 0), None, orjson.dumps(document), (), -1, 0, 0)
