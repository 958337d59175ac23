"""Context: each document is indexed a second time together with its neighbours, once the document itself is written.

A context is made from the index's copy of a document's window, never from events in flight. So the order of events
doesn't matter. Promises:
- Once every event is applied, each context is that of the documents in the index, whatever the order of the events, and
  however many replicas applied them at the same time.
- A document passes on, and so is in the watermark, only when the contexts that it changes are written.

How: after the documents are written, the contexts that they change are read from the index and written, and read again
until a reading equals what was written last. A change between reading and writing is then either seen by this second
reading, or made by an event that is applied later, which writes the same contexts in its turn. Each point names the
documents of its context, and those that left it when it was made, so the contexts that a deleted or moved document was
in are found by every reading, also by that of a successor after a crash.

A context is written only to the version and group of the document that it was read for: a request that comes late, even
from an indexer that has ended, never gives a document that is shown the words of neighbours that are hidden.

Neighbours:
- A document's place is its group and its value in the order; of equal values the point's id decides.
- Documents of one group have the same tier and labels, firewall or not: who may see one of them may see all, so that
  being found by a context tells nothing of a document that is hidden.
- Its window is the `before` documents in front of it, itself, and the `after` documents behind it, all of its group.
- A document without a place is alone in its window.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from operators.clients.qdrant.answers import PayloadTest
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.requests import Change
from operators.collections.catalogue import Catalogue
from operators.indexing.apply import DocumentStage, write_all
from operators.indexing.document import DocumentInFlight, Documents, EventInFlight, Events
from operators.indexing.point import GroupPosition, has_value, moves, spell
from operators.ranking.content import content
from operators.runtime.batching.policy import by_key, chunks
from operators.runtime.dispatcher import BatchKey
from schemas.document import COLUMNS, GROUP, LEFT, NEIGHBOURS, ORDER, VERSION
from schemas.errors import BackendError
from schemas.settings.qdrant import ContextSettings, Vectors

_FIELDS: Final = (*COLUMNS, GROUP, ORDER, VERSION)
_NAMES: Final = (NEIGHBOURS, LEFT)
_PAGE: Final = 256

DenseVector = tuple[float, ...]


class ContextDocument(NamedTuple):
    """A document as its neighbours see it; `version` is None where the index has none of it."""

    id: str
    position: GroupPosition | None
    content: str
    version: int | None = None

    @classmethod
    def of(cls, id_: str, payload: Mapping[str, Any]) -> "ContextDocument":
        """The document of a point, by its payload in the index."""
        group, order = payload.get(GROUP), payload.get(ORDER)
        placed = (
            GroupPosition(group, float(order)) if isinstance(group, str) and isinstance(order, int | float) else None
        )
        version = payload.get(VERSION)
        return cls(id_, placed, content(payload), version if isinstance(version, int) else None)


Window = tuple[ContextDocument, ...]
"""The documents that one context is made of, in their order."""


def windows(members: Collection[ContextDocument], settings: ContextSettings) -> dict[str, Window]:
    """The window of each document, by id; those with a place are of one group."""
    placed = sorted((member for member in members if member.position is not None), key=attrgetter("position", "id"))
    found = {
        member.id: tuple(placed[max(0, index - settings.before) : index + settings.after + 1])
        for index, member in enumerate(placed)
    }
    return {**found, **{member.id: (member,) for member in members if member.position is None}}


def windows_of(found: Mapping[str, Window], ids: Collection[str]) -> dict[str, Window]:
    """The windows that any of these documents is in."""
    return {id_: window for id_, window in found.items() if any(member.id in ids for member in window)}


def join_contents(window: Window) -> str:
    """The text of a context: the contents of its documents, in their order."""
    return "\n".join(member.content for member in window if member.content)


class Context(NamedTuple):
    """The content of a context: its window, and the dense vectors of the documents in it that have one.

    `left`: which of the documents that it is written for are in it no more.
    """

    window: Window
    dense: tuple[DenseVector, ...]
    left: tuple[str, ...]


@dataclass(frozen=True)
class ContextWriter(DocumentStage[None]):
    """Writes the contexts that documents change; `settings` choose the neighbours."""

    step = "context"
    refused: ClassVar = "the document is written, and its context is refused"

    qdrant: QdrantClient
    names: Vectors
    settings: ContextSettings
    catalogue: Catalogue
    timeout: float

    @override
    async def call(self, batch_key: BatchKey, documents: Events, timeout: float) -> list[BackendError | None]:
        """One outcome a document, each of which the index holds, or a newer one, or none after a deletion."""
        # A deletion of many has written the contexts itself.
        moved = [each for each in documents if isinstance(each, DocumentInFlight) and moves(each, self.settings)]
        of = self.catalogue.capabilities_of
        refused: dict[EventInFlight, BackendError | None] = {}
        for physical, there in by_key(moved, lambda each: of(each.collection).name).items():
            errors = await write_all(there, partial(self._update_of, physical))
            refused.update(zip(there, errors, strict=True))
        return [refused.get(document) for document in documents]

    async def _update_of(self, physical: str, documents: Documents) -> None:
        await self.update(physical, documents[0].collection, {document.point_id for document in documents})

    async def update(self, physical: str, collection: str, ids: Collection[str]) -> None:
        """Write the contexts that these documents of a collection are in, or were in, until nothing has changed.

        `collection` is the name of `physical` in the configuration. Raises BackendError.
        """
        done: dict[str, Context] = {}
        while True:
            found = await self._read(physical, ids)
            due = {id_: context for id_, context in found.items() if done.get(id_) != context}
            if not due:
                return
            changes = [self._change(id_, context, collection) for id_, context in due.items()]
            await self.qdrant.change(physical, changes, timeout=self.timeout)
            done |= due

    async def _read(self, physical: str, ids: Collection[str]) -> dict[str, Context]:
        """The contexts that these documents are in, or were in when they were written, as the index has them now."""
        naming = await self._naming(physical, ids)
        earlier = [ContextDocument.of(id_, payload) for id_, payload in naming.items()]
        payloads = await self.qdrant.retrieve(physical, sorted(ids), _FIELDS, timeout=self.timeout)
        present = [ContextDocument.of(id_, payload) for id_, payload in payloads.items()]
        known = {member.id: member for member in (*earlier, *present)}
        found = windows([member for member in known.values() if member.position is None], self.settings)
        placed = sorted({member.position for member in known.values() if member.position is not None})
        for group, positions in groupby(placed, key=attrgetter("group")):
            orders = [position.order for position in positions]
            nearby = windows(await self._group(physical, group, orders), self.settings)
            found |= windows_of(nearby, ids)
            found |= {member.id: nearby[member.id] for member in earlier if member.id in nearby}
        members = {member.id: member.position for window in found.values() for member in window}
        # A document that was hidden, or shown, meanwhile is not in the window any more; the next reading sees that.
        only = PayloadTest((GROUP, ORDER), lambda id_, fields: ContextDocument.of(id_, fields).position == members[id_])
        every, timeout = sorted(members), self.timeout
        vectors = (
            await self.qdrant.vectors(physical, every, self.names.dense, only=only, timeout=timeout) if every else {}
        )
        contexts = {}
        for id_, window in found.items():
            dense = tuple(tuple(vectors[each.id]) for each in window if each.id in vectors)
            contexts[id_] = Context(window, dense, _find_left(naming.get(id_, {}), window, ids))
        return contexts

    async def _group(self, physical: str, group: str, orders: Sequence[float]) -> list[ContextDocument]:
        """The documents of a group at these values of its order, and all that are in a window with one that is."""
        reach = self.settings.before + self.settings.after
        within = has_value(GROUP, group)
        if self.qdrant.limits_of(physical).page(_PAGE) < _PAGE:
            # Pages in order can't pass by more documents of one place than a page may have: the whole group is read.
            where = {"must": [within]}
            found_by_id = self.qdrant.records(physical, where, limit=_PAGE, fields=_FIELDS, timeout=self.timeout)
            return [ContextDocument.of(each.id, each.payload) async for each in found_by_id]
        found: dict[str, ContextDocument] = {}
        rest, limit = orders, _PAGE
        while rest:
            before = {"must": [within, {"key": ORDER, "range": {"lt": rest[0]}}]}
            behind = {"must": [within, {"key": ORDER, "range": {"gte": rest[0]}}]}
            if reach:
                found |= await self._read_ordered(physical, before, "desc", reach)
            page = await self._read_ordered(physical, behind, "asc", limit)
            found |= page
            if len(page) < limit:
                break
            # Complete are the windows of what has enough documents behind it, all of a greater value.
            there = sorted(member.position.order for member in page.values() if member.position is not None)
            last = there[-1 - reach]
            left = [order for order in rest if order >= last]
            limit = limit if len(left) < len(rest) else 2 * limit
            rest = left
        return list(found.values())

    async def _read_ordered(
        self, physical: str, where: Mapping[str, Any], direction: str, limit: int
    ) -> dict[str, ContextDocument]:
        order = {"key": ORDER, "direction": direction}
        page = await self.qdrant.scroll(
            physical, where, limit=limit, fields=_FIELDS, order_by=order, timeout=self.timeout
        )
        return {record.id: ContextDocument.of(record.id, record.payload) for record in page.records}

    async def _naming(self, physical: str, ids: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """The points that name any of these documents, by id, with the fields that a member needs."""
        found: dict[str, Mapping[str, Any]] = {}
        named = sorted(ids)
        most = self.qdrant.limits_of(physical).listed or len(named)
        for part in chunks(named, most):
            where = {"should": [{"key": names, "match": {"any": part}} for names in _NAMES]}
            fields = (*_FIELDS, *_NAMES)
            naming = self.qdrant.records(physical, where, limit=_PAGE, fields=fields, timeout=self.timeout)
            found |= {each.id: each.payload async for each in naming}
        return found

    def _change(self, id_: str, context: Context, collection: str) -> Change:
        terms = self.catalogue.analyser(collection).document(join_contents(context.window))
        vectors: dict[str, Any] = {self.names.dense_context: mean_direction(context.dense)}
        vectors[self.names.sparse_context] = spell(terms) if terms.indices else None
        named = {NEIGHBOURS: [member.id for member in context.window], LEFT: list(context.left)}
        own = next(member for member in context.window if member.id == id_)
        # The document is still the one that was read, for the same sources.
        same = {VERSION: own.version, GROUP: own.position.group if own.position is not None else None}
        conditions = [has_value(name, value) for name, value in same.items() if value is not None]
        return Change(id_, vectors, named, conditions)


def mean_direction(vectors: Sequence[DenseVector]) -> NDArray[np.float32] | None:
    """The mean direction of vectors; None of none, and where they cancel out."""
    if not vectors:
        return None
    total = np.sum(np.array(vectors, np.float64), axis=0)
    length = float(np.linalg.norm(total))
    return (total / length).astype(np.float32) if length > 0 else None


def _find_left(payload: Mapping[str, Any], window: Window, ids: Collection[str]) -> tuple[str, ...]:
    """Which of these documents the point names that are not in its window any more."""
    named = {id_ for names in _NAMES for id_ in payload.get(names, ()) if id_ in ids}
    return tuple(sorted(named - {member.id for member in window}))
