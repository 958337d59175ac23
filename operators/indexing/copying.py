"""Copying: the documents of a collection go into a new one, read from the fields that their points keep.

Rules:
- A document is written as its events would write it: embedded, encoded and analysed again, with its version, its
  patches and its expiry. What the new settings refuse is left out, and the log says so.
- A vector that a document brought is told from an embedder's by nothing. It is copied where no embedder is configured,
  and made of the text otherwise.
- The tombstones of namespaces are copied as they are. A document that is written and not yet shown is left out: its
  indexer's event is read again.
- Nothing else writes to the new collection meanwhile. Events since the copy began are applied behind it.
"""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from operators.clients.qdrant.client import QdrantClient
from operators.indexing.apply import DocumentStage
from operators.indexing.decode import DocumentDecoder
from operators.indexing.document import DocumentInFlight, EventInFlight
from operators.indexing.point import read_patches
from operators.wire.message import Message, Origin
from schemas.document import DESTINATION, FORGOTTEN, NAMESPACE, VECTOR, VERSION
from schemas.errors import InputError

log = structlog.stdlib.get_logger(__name__)

_PAGE: Final = 64
_BATCH: Final = "copy"
_OWN: Final = "_"
_NAMING: Final = ("id", NAMESPACE, DESTINATION, "collection")

Event = dict[str, Any]


def events_of(payload: Mapping[str, Any], vector: Sequence[float] | None = None) -> list[tuple[int, Event]]:
    """The events that give the document with this payload, each with its version in ms: the upsert, then patches.

    A field that a patch changed has no other value than the patch's.
    """
    patches, version = read_patches(payload), payload[VERSION]
    fields = {name: value for name, value in payload.items() if not name.startswith(_OWN) and name not in patches}
    upsert = fields if vector is None else {**fields, VECTOR: vector}
    named = {name: payload[name] for name in _NAMING if name in payload}
    by_version: defaultdict[int, Event] = defaultdict(lambda: {"op": "patch", **named})
    for name, (changed, value) in patches.items():
        by_version[changed][name] = value
    return [(version, upsert), *sorted(by_version.items(), key=lambda each: each[0])]


@dataclass(frozen=True)
class Copier:
    """Copies page by page; `stages` write documents, `own` names the vector that is copied, None: all are made."""

    qdrant: QdrantClient
    decoder: DocumentDecoder
    stages: Sequence[DocumentStage[Any]]
    own: str | None
    timeout: float

    async def copy_page(self, source: str, target: str, offset: str | None) -> tuple[int, str | None]:
        """Copy the page that begins at `offset`: the number of its documents, and where the next page begins.

        Raises BackendError where the source can't be read; the target is waited for.
        """
        page = await self.qdrant.scroll(source, limit=_PAGE, offset=offset, timeout=self.timeout)
        shown = {each.id: each.payload for each in page.records if {NAMESPACE, VERSION} <= each.payload.keys()}
        tombstones = [
            {"id": each.id, "vector": {}, "payload": each.payload} for each in page.records if FORGOTTEN in each.payload
        ]
        if tombstones:
            await self.qdrant.upsert(target, tombstones, timeout=self.timeout)
        vectors: Mapping[str, Any] = {}
        if self.own is not None and shown:
            vectors = await self.qdrant.vectors(source, list(shown), self.own, timeout=self.timeout)
        events = [event for id_, payload in shown.items() for event in self._events(payload, vectors.get(id_))]
        await self._write(events)
        return len(shown), page.next_offset

    def _events(self, payload: Mapping[str, Any], vector: Sequence[float] | None) -> list[EventInFlight]:
        placed: list[EventInFlight] = []
        for version, event in events_of(payload, vector):
            message = Message(Origin("", 0, 0, 0), None, None, (), version / 1000, 0.0, time.monotonic())
            try:
                placed.append(self.decoder.to_in_flight(message, event))
            except InputError as error:
                log.warning("document not copied", document=payload.get("id"), reason=str(error))
        return placed

    async def _write(self, events: Sequence[EventInFlight]) -> None:
        for stage in self.stages:
            outcomes = await stage.call(_BATCH, events, math.inf) if events else ()
            written = []
            for event, outcome in zip(events, outcomes, strict=True):
                try:
                    written.append(stage.on_result(event, outcome))
                except InputError as error:
                    assert isinstance(event, DocumentInFlight)
                    log.warning("document not copied", document=event.event.id, reason=str(error))
            events = written
