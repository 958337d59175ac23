"""Deletions of many documents: those that an event forgets, and those that have expired.

A tombstone says what was forgotten of a namespace, and is kept in the index, so that nothing older comes back.
A namespace has one tombstone in each collection that forgot something of it: a point without vectors and without a
namespace, so no query, count or scroll of documents finds it. It names versions, each with conditions: a document of
this version or an earlier one that meets them is forgotten. Without conditions all are.

Rules:
- A document's version is that of its upsert. A patch is no version of it: a filter sees the fields as the index has
  them when the filter is applied.
- A tombstone is written before the documents are deleted. So a crash in between is repaired when the event is read
  again, and until then nothing new that is forgotten is written.
- An indexer reads the tombstone before it writes a document, and once more behind its last write. It is done when the
  second reading equals the first. Otherwise it applies what has come.

Nothing older stays, in any order of the steps of any number of indexers. A write of an older document comes before
or behind the scan of the deletion. If before, the scan sees and deletes it. If behind, the tombstone was written before
it, so the second reading of its indexer has the tombstone, and that indexer deletes the document. If it ends before it
can, its event is read again, and an event of a forgotten document deletes whatever the index has of it.

An old document is never seen if its indexer has read the tombstone before. Where a whole namespace is forgotten, it is
not written. Where a filter decides, only the index can tell: the document is written without its namespace, deleted if
the filter matches, and given its namespace if not. A document that is written at the very moment of the deletion may be
seen until its indexer has read the tombstone for the second time. Its watermark, or the repetition of it, then ends the
cached answers that have it.

Queries see no expired document from its moment on: its deletion makes room, and takes nothing from an answer. So no
watermark moves. Any number of indexers may delete at the same time.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import orjson
import structlog

from operators.access.filters import Condition, count_conditions
from operators.caching.bounded import BoundedCache
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant.requests import Change
from operators.collections.catalogue import Catalogue
from operators.indexing.document import DeletionInFlight, DocumentInFlight, Documents
from operators.indexing.point import has_value, hash_patches, up_to
from operators.runtime.batching.policy import by_key
from schemas.document import DESTINATION, EXPIRES, FORGOTTEN, GROUP, NAMESPACE, ORDER, PATCHED, VERSION
from schemas.errors import BackendError, invalid

log = structlog.stdlib.get_logger(__name__)

MOST_BYTES: Final = 256 * 1024
"""Bytes of a tombstone as JSON: thousands of simple filters. Each batch of its namespace's documents reads it."""

_KEPT: Final = 16 * 1024 * 1024
"""Bytes of the tombstones that are kept in memory."""

EVERY: Final = 60.0
"""Seconds from one look for expired documents to the next."""

_PAGE: Final = 256
_EVERYTHING: Final = "[]"


class Forgotten(NamedTuple):
    """The documents up to a version that meet the conditions; no conditions: all of the namespace.

    The conditions are JSON: the index may give a number back with another last digit, a text never.
    """

    version: int
    where: str = _EVERYTHING

    @classmethod
    def of(cls, version: int, conditions: Sequence[Condition]) -> "Forgotten":
        """Select those that meet all conditions."""
        return cls(version, orjson.dumps(conditions).decode())

    @property
    def whole_namespace(self) -> bool:
        """True if it is the whole namespace."""
        return self.where == _EVERYTHING

    def supersedes(self, other: "Forgotten") -> bool:
        """True if nothing of the other is left next to this one: it is as late, and what meets the other meets it."""
        return self.version >= other.version and all(
            any(_implies(theirs, own) for theirs in _conditions(other.where)) for own in _conditions(self.where)
        )

    def condition(self) -> Condition:
        """The condition of a document of the namespace that is forgotten."""
        return {"must": [up_to(self.version), *orjson.loads(self.where)]}

    def later(self) -> Condition:
        """The condition of one that stays for its version."""
        return {"must": [{"key": VERSION, "range": {"gt": self.version}}, *orjson.loads(self.where)]}


Tombstone = Sequence[Forgotten]
"""The deletions of many in a namespace, the latest version first; so that of the whole can only be the last."""

Write = Callable[[str, Documents], Awaitable[None]]


def within(destination: str, namespace: str) -> list[Condition]:
    """The conditions of a namespace's documents."""
    return [has_value(NAMESPACE, namespace), has_value(DESTINATION, destination)]


def remember(tombstone: Tombstone, forgotten: Forgotten) -> Tombstone:
    """The tombstone with one more, without those that another one covers."""
    if any(each.supersedes(forgotten) for each in tombstone):
        return tombstone
    return _latest_first([*(each for each in tombstone if not forgotten.supersedes(each)), forgotten])


def is_forgotten(tombstone: Tombstone, version: int) -> bool:
    """True if every document of this version is forgotten."""
    return bool(tombstone) and tombstone[-1].whole_namespace and tombstone[-1].version >= version


def may_be_forgotten(tombstone: Tombstone, version: int) -> bool:
    """True if a document of this version is forgotten, or may be by a filter."""
    return bool(tombstone) and tombstone[0].version >= version


def _latest_first(tombstone: Iterable[Forgotten]) -> Tombstone:
    return sorted(tombstone, key=lambda each: (-each.version, each.whole_namespace))


def _implies(narrow: object, wide: object) -> bool:
    """True if whatever meets one condition meets the other, as far as their forms tell."""
    if orjson.dumps(narrow) == orjson.dumps(wide):
        return True
    if not isinstance(narrow, dict) or not isinstance(wide, dict) or narrow.get("key") != wide.get("key"):
        return False
    if narrow.keys() == wide.keys() == {"key", "match"}:
        values = _values(narrow["match"])
        return bool(values) and values <= _values(wide["match"])
    if narrow.keys() == wide.keys() == {"key", "range"}:
        return all(_is_within(narrow["range"], name, bound) for name, bound in wide["range"].items())
    return False


def _values(match: Mapping[str, Any]) -> set[bytes]:
    """The values that a condition names, with their types; none for other kinds of it."""
    named = match.get("any", [match["value"]] if "value" in match else [])
    return {orjson.dumps(value) for value in named}


def _is_within(bounds: Mapping[str, Any], name: str, bound: Any) -> bool:
    """True if these bounds are within one more: `lt`, `lte`, `gt` or `gte`, of numbers or of times in one form."""
    sign = 1 if name.startswith("l") else -1
    for own, value in bounds.items():
        if own[0] != name[0] or isinstance(value, str) != isinstance(bound, str):
            continue
        order = sign * ((value > bound) - (value < bound))
        if order < 0 or (not order and (own == name or name.endswith("e"))):
            return True
    return False


_conditions: Final[Callable[[str], list[object]]] = lru_cache(8192)(orjson.loads)


def _check_size(namespace: str, tombstone: Tombstone, size: int, most: int | None) -> None:
    """Raise InputError `invalid` for a tombstone that is too large, or has more conditions than a filter may have."""
    cure = "delete the whole namespace, or repeat filters, of which only the latest version is kept"
    if size > MOST_BYTES:
        what = f"the filters that were forgotten in a namespace have {MOST_BYTES} bytes at most; {cure}"
        raise invalid("filters", f"{what}; in {namespace} they would have", size)
    conditions = 2 + sum(count_conditions(each.condition()) for each in tombstone)
    if most is not None and conditions > most:
        what = f"the collection's strict mode allows {most} conditions (filter_max_conditions); {cure}"
        raise invalid("filters", f"{what}; those forgotten in {namespace} would have", conditions)


def _size_of(_: object, tombstone: Tombstone) -> int:
    return 256 + sum(128 + len(each.where) for each in tombstone)


class Contexts(Protocol):
    """Documents that are indexed together with their neighbours."""

    async def update(self, physical: str, collection: str, ids: Collection[str]) -> None:
        """Write the contexts that these documents of a collection are in, or were in."""
        ...


@dataclass(frozen=True)
class Deletion:
    """Deletes documents by a condition, their words in the contexts of their neighbours first, and remembers it."""

    qdrant: QdrantClient
    contexts: Contexts | None
    timeout: float
    _known: BoundedCache[tuple[str, str, int], Tombstone] = field(
        default_factory=lambda: BoundedCache(_KEPT, _size_of), init=False, repr=False
    )

    async def delete(self, physical: str, collection: str, condition: Condition) -> int:
        """Delete the documents of a collection that meet the condition, and return their number.

        `collection` is the name of `physical` in the configuration. Raises BackendError.
        """
        deleted = 0
        # What is deleted is named in one condition.
        most, which = min(_PAGE, self.qdrant.limits_of(physical).listed or _PAGE), {"must": [condition]}
        while True:
            found = await self.qdrant.scroll(physical, which, limit=most, fields=False, timeout=self.timeout)
            if not found.records:
                return deleted
            ids = [record.id for record in found.records]
            if self.contexts is not None:
                # First they lose their place, then the neighbours are written: a crash leaves them to be found again.
                changes = [Change(id_, {}, {GROUP: None, ORDER: None}, [condition]) for id_ in ids]
                await self.qdrant.change(physical, changes, timeout=self.timeout)
                await self.contexts.update(physical, collection, ids)
            # A later version of one may have come meanwhile.
            await self.qdrant.delete(physical, {"must": [{"has_id": ids}, condition]}, timeout=self.timeout)
            deleted += len(ids)

    async def _enforce(self, physical: str, tombstones: Mapping[str, Tombstone], documents: Documents) -> None:
        """Delete what the tombstones say of these documents of a collection; show the hidden ones that stay."""
        for id_, there in by_key(documents, lambda each: each.tombstone_id).items():
            oldest = min(document.version for document in there)
            forgotten = [each.condition() for each in tombstones[id_] if each.version >= oldest]
            chosen = {"has_id": [document.point_id for document in there]}
            await self.delete(physical, there[0].collection, {"must": [chosen, {"should": forgotten}]})
        shown = []
        for document in documents:
            if document.hidden:
                same = [has_value(VERSION, document.version)]
                shown.append(Change(document.point_id, {}, {NAMESPACE: document.namespace}, same))
        if shown:
            await self.qdrant.change(physical, shown, timeout=self.timeout)

    async def tombstones(self, physical: str, documents: Iterable[DocumentInFlight]) -> dict[str, Tombstone]:
        """The tombstone of each document's namespace that has one, by its point. Raises BackendError."""
        ids = sorted({document.tombstone_id for document in documents})
        return {id_: tombstone for id_, (_, tombstone) in (await self._read(physical, ids)).items()}

    async def _read(self, physical: str, points: Sequence[str]) -> dict[str, tuple[int, Tombstone]]:
        """The tombstones at these points, each with its hash. One that is known is not read again."""
        hashes = await self.qdrant.retrieve(physical, points, (PATCHED,), timeout=self.timeout)
        known = {id_: self._known.get((physical, id_, payload[PATCHED])) for id_, payload in hashes.items()}
        found = {id_: (hashes[id_][PATCHED], each) for id_, each in known.items() if each is not None}
        if unknown := [id_ for id_, each in known.items() if each is None]:
            read = await self.qdrant.retrieve(physical, unknown, (FORGOTTEN, PATCHED), timeout=self.timeout)
            for id_, payload in read.items():
                tombstone = _latest_first(Forgotten(version, where) for version, where in payload[FORGOTTEN])
                self._known.put((physical, id_, payload[PATCHED]), tombstone)
                found[id_] = payload[PATCHED], tombstone
        return found

    async def _add(self, physical: str, point: str, namespace: str, forgotten: Forgotten) -> None:
        """Add to a namespace's tombstone. Raises InputError for one that becomes too large, and BackendError."""
        while True:
            found = await self._read(physical, [point])
            mark, before = found.get(point, (None, ()))
            tombstone = remember(before, forgotten)
            if tombstone == before:
                return
            written = [list(each) for each in tombstone]
            _check_size(namespace, tombstone, len(orjson.dumps(written)), self.qdrant.limits_of(physical).conditions)
            # As with patches: what another indexer has written meanwhile stays, and is read again.
            fields = {FORGOTTEN: written, PATCHED: hash_patches({FORGOTTEN: (0, written)})}
            condition = {"must": [has_value(PATCHED, mark)]}
            whole = {"id": point, "vector": {}, "payload": fields}
            await self.qdrant.upsert(physical, [whole], condition, timeout=self.timeout)

    async def forget(self, physical: str, deletion: DeletionInFlight, forgotten: Forgotten) -> None:
        """Write a deletion of many into its tombstone, and delete. Raises InputError and BackendError."""
        namespace = deletion.namespace
        place = within(deletion.destination, namespace)
        later, which = {"must": [*place, forgotten.later()]}, {"must": [*place, forgotten.condition()]}
        # Qdrant refuses here what it cannot search or delete by, before a tombstone has it. The second request deletes
        # nothing: its id is the tombstone's, which no condition of documents matches.
        await self.qdrant.count(physical, later, timeout=self.timeout)
        nothing = {"must": [{"has_id": [deletion.point_id]}, which]}
        await self.qdrant.delete(physical, nothing, timeout=self.timeout)
        await self._add(physical, deletion.point_id, namespace, forgotten)
        deleted = await self.delete(physical, deletion.collection, which)
        stayed = await self.qdrant.count(physical, later, timeout=self.timeout)
        deletion.emptied = forgotten.whole_namespace and not stayed
        details = {"collection": physical, "namespace": namespace, "deleted": deleted, "later_versions": stayed}
        log.info("namespace forgotten", **details)

    async def guard(self, physical: str, batch: Documents, write: Write) -> None:
        """Write documents of a collection, and nothing forgotten: until no tombstone has come meanwhile."""
        known = await self.tombstones(physical, batch)
        while True:
            of = {each: known.get(each.tombstone_id, ()) for each in batch}
            late = [each for each, tombstone in of.items() if may_be_forgotten(tombstone, each.version)]
            for each in late:
                each.hidden = each.event.op == "upsert"
            # A patch that is as old changes nothing of what is left.
            if living := [each for each, tombstone in of.items() if not is_forgotten(tombstone, each.version)]:
                await write(physical, living)
            await self._enforce(physical, known, late)
            found = await self.tombstones(physical, batch)
            if found == known:
                return
            known = found


@dataclass(frozen=True)
class Expiry:
    """Deletes the expired documents of these collections, by their names in the configuration."""

    deletion: Deletion
    catalogue: Catalogue
    collections: tuple[str, ...]
    clock: Callable[[], float] = time.time

    async def delete_all(self) -> None:
        """Delete once in each collection; a collection that fails is tried again the next time.

        A defect is raised after all collections have had their turn.
        """
        defect: Exception | None = None
        for collection in self.collections:
            try:
                if deleted := await self.delete(collection):
                    log.info("expired documents deleted", collection=collection, documents=deleted)
            except BackendError as error:
                log.warning("expired documents not deleted", collection=collection, reason=str(error))
            except Exception as error:  # noqa: BLE001  the other collections' documents expire, too
                defect = error
        if defect is not None:
            raise defect

    async def delete(self, collection: str) -> int:
        """Delete the documents of a collection that have expired, and return their number. Raises BackendError."""
        capabilities = self.catalogue.capabilities_of(collection)
        if not capabilities.expires:
            return 0
        expired: dict[str, Any] = {"key": EXPIRES, "range": {"lte": round(self.clock() * 1000)}}
        return await self.deletion.delete(capabilities.name, collection, expired)
