"""Embed, encode and apply: documents are embedded and written in the order in which they were read.

The stages make one call at a time. So the applied documents are always a prefix, and the watermark only grows. A
backend that can't be reached is waited for: a document has no deadline. A document that Qdrant or a model refuses
becomes a dead letter alone.

A model may fail for one text with any error, and go on to fail for it. So after a failure it is asked for a control
text. If it embeds that, the failed call is divided, down to the one document that fails alone; that document is refused
once it has failed as often as ENOUGH says, each time with the control text answered after it. If the control text
fails, too, the embedder is waited for. A document that fails among n costs about 2 log n calls, and as many controls.
"""

import asyncio
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from typing import ClassVar, Final, TypeVar

import structlog
from typing_extensions import override

from operators.access.filters import on_fields
from operators.access.indexes import check_indexes
from operators.clients.admission import LONGEST_REST
from operators.clients.embedders import Encoder, Vector
from operators.clients.failures import bisect
from operators.clients.http.dialect import REFUSALS
from operators.clients.http.transport import CONTROL
from operators.clients.qdrant.answers import Payload
from operators.clients.qdrant.client import QdrantClient
from operators.collections.catalogue import Catalogue
from operators.indexing import point as points
from operators.indexing.deletion import Contexts, Deletion, Forgotten
from operators.indexing.document import DeletionInFlight, DocumentInFlight, Documents, EventInFlight, Events, newest
from operators.query.backend_answers import Embedding
from operators.ranking.content import is_blank
from operators.ranking.run import stamp
from operators.runtime.batching.policy import by_key, chunks
from operators.runtime.dispatcher import AsyncStage, BatchKey, Bounds
from operators.text.terms import SparseVector
from schemas.document import EXPIRES_AT, FIELDS, PATCHED, PATCHES, VERSION
from schemas.errors import BackendError, Blame, DeadLetterClass, InputError, invalid
from schemas.settings.qdrant import ContextSettings, Vectors

log = structlog.stdlib.get_logger(__name__)

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")
Probe = Callable[[], Awaitable[object]]
Refusal = InputError | BackendError

_BATCH_KEY: Final = "documents"
_LONGEST_PAUSE: Final = 5.0

_NO_TIME: Final = "expected RFC 3339 with an offset, or Unix seconds"
_NOT_FOUND: Final = "id: the patch found no document of this id in its namespace"
_UNREADABLE: Final = "embedder does not know the script of a document, whose vector says little"

ENOUGH: Final = {Blame.REQUEST: 2, Blame.UNKNOWN: 3, Blame.BACKEND: 6}
"""Failures of a single document after which it is refused, by what the backend said.

An answer says more than silence: a time-out and a broken connection have many causes.
"""


async def until_answered(
    call: Callable[[], Awaitable[Outcome]], *, alone: bool = True, control: Probe | None = None
) -> Outcome:
    """Call until the backend answers, waiting ever longer in between. Raises BackendError for a refusal.

    A missing collection, a wrong key or garbage is no fault of the documents: it is waited out, too, with a warning.
    With a `control` call, every failure that it doesn't share is a refusal: at once of a call for several documents, of
    one that is `alone` after ENOUGH of them.
    """
    pause = 0.1
    failures = 0
    while True:
        try:
            return await call()
        except BackendError as error:
            if control is None and error.status in REFUSALS:
                raise
            # An answered control request says nothing of an overload: it may have found room.
            maybe_refused = error.suspect in ENOUGH and not error.unread
            serves = error.serves_others
            if control is not None and maybe_refused and (await _answers(control, 1) if serves is None else serves):
                failures += 1
                # Behind a balancer a sick replica may get each call, and a healthy one each control: three break step.
                if not alone or (failures >= ENOUGH[error.suspect] and await _answers(control, 2)):
                    raise error.but(serves_others=True) from None
            log.warning("backend call failed", reason=str(error), retry_in_s=pause)
            await asyncio.sleep(max(pause, min(error.retry_after, LONGEST_REST)))
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _answers(control: Probe, times: int) -> bool:
    try:
        for _ in range(times):
            await control()
    except BackendError:
        return False
    return True


async def ask_all(
    items: Sequence[Item], call: Callable[[Sequence[Item]], Awaitable[Sequence[Outcome]]], control: Probe | None = None
) -> list[Outcome | BackendError]:
    """Call until the backend answers; bisect a refused batch. An outcome of each item, or the error that refuses it."""

    async def ask(some: Sequence[Item]) -> Sequence[Outcome]:
        return await until_answered(lambda: call(some), alone=len(some) == 1, control=control)

    return await bisect(items, ask, thorough=True)


async def write_all(
    items: Sequence[Item], call: Callable[[Sequence[Item]], Awaitable[None]]
) -> list[BackendError | None]:
    """Write items as `ask_all` asks about them: the error of each refused item, None for the others."""

    async def write(some: Sequence[Item]) -> Sequence[None]:
        await call(some)
        return [None] * len(some)

    return await ask_all(items, write)


class DocumentStage(AsyncStage[EventInFlight, Outcome]):
    """Asks a backend about documents, one call at a time. A document that the backend refuses is rejected alone.

    `refused` begins the reason of its dead letter: what is refused, where that is not the whole document.
    """

    # One call at a time; small ones, for a model in this process serves queries, too.
    bounds = Bounds(timeout=math.inf, max_batch=64, max_concurrency=1)
    refused: ClassVar = "refused"

    def request(self, item: EventInFlight) -> tuple[BatchKey, EventInFlight]:
        # Every document has the same batch key, so that none overtakes another.
        return _BATCH_KEY, item

    def on_result(self, item: EventInFlight, outcome: Outcome | BackendError) -> EventInFlight:
        if isinstance(outcome, BackendError):
            # Only refusals come here, and defects of ours: everything else was waited out.
            kind = DeadLetterClass.INVALID if outcome.blame is Blame.REQUEST else DeadLetterClass.INTERNAL
            raise InputError(kind, f"{self.refused}: {outcome}" + (f": {outcome.quoted}" if outcome.quoted else ""))
        self.on_answer(item, outcome)
        return item

    def on_answer(self, document: EventInFlight, answer: Outcome) -> None:
        """Apply the backend's answer to the document."""


@dataclass(frozen=True)
class DocumentTexts(DocumentStage[Vector | None]):
    """Has a model make a vector of each document's text, where the document needs one."""

    encoder: Encoder[Vector] | None
    timeout: float

    @abstractmethod
    def needs(self, document: DocumentInFlight) -> bool:
        """True if a document that is written needs a vector."""

    @override
    async def call(self, batch_key: BatchKey, documents: Events, timeout: float) -> list[Vector | BackendError | None]:
        if (encoder := self.encoder) is None:
            return [None] * len(documents)

        async def embed(some: Documents) -> list[Vector]:
            texts = [document.content for document in some]
            return await encoder.embed(texts, purpose="document", timeout=self.timeout)

        async def control() -> None:
            await encoder.embed([CONTROL], purpose="document", timeout=self.timeout)

        upserts = [each for each in documents if isinstance(each, DocumentInFlight) and each.event.op == "upsert"]
        needing = [document for document in upserts if self.needs(document)]
        found = await ask_all(needing, embed, control)
        vectors: dict[EventInFlight, Vector | BackendError] = dict(zip(needing, found, strict=True))
        return [vectors.get(document) for document in documents]


@dataclass(frozen=True)
class DocumentEmbedder(DocumentTexts[Embedding]):
    """Embeds the documents that bring no vector of their own; `count` is called for each that the model can't read."""

    step = "embed"

    count: Callable[[], None] = lambda: None

    def needs(self, document: DocumentInFlight) -> bool:
        return document.event.vector is None

    @override
    def on_answer(self, document: EventInFlight, answer: Embedding | None) -> None:
        if answer is None or not isinstance(document, DocumentInFlight):
            return
        document.embedding = answer
        if not answer.readable:
            self.count()
            log.warning(_UNREADABLE, **document.message.origin.log_fields, count=1)


class DocumentEncoder(DocumentTexts[SparseVector]):
    """Encodes the documents for the leg `learned`; those with a vector of their own, too."""

    step = "encode"

    def needs(self, document: DocumentInFlight) -> bool:
        return not is_blank(document.content)

    @override
    def on_answer(self, document: EventInFlight, answer: SparseVector | None) -> None:
        if isinstance(document, DocumentInFlight):
            document.encoding = answer


@dataclass(frozen=True)
class Writer(DocumentStage[InputError | None]):
    """Writes documents to Qdrant: of each point the newest event, never over a newer version, and nothing forgotten.

    The terms of a collection are made by that collection's analyser. Patches are applied behind the other events of
    their batch; what the index has of a point is read before and after each write that depends on it. A deletion of
    many is applied behind all events that were read before it.
    """

    step = "apply"

    qdrant: QdrantClient
    names: Vectors
    context: ContextSettings
    catalogue: Catalogue
    timeout: float
    contexts: Contexts | None = None

    @cached_property
    def _deletion(self) -> Deletion:
        return Deletion(self.qdrant, self.contexts, self.timeout)

    @override
    def on_answer(self, document: EventInFlight, answer: InputError | None) -> None:
        if answer is not None:
            raise answer

    @override
    async def call(self, batch_key: BatchKey, documents: Events, timeout: float) -> list[Refusal | None]:
        """One outcome an event; a document that a newer one of the batch replaces is done with it."""
        outcomes: dict[EventInFlight, Refusal | None] = {}
        for _, run in groupby(documents, type):
            events = list(run)
            outcomes |= await self._write([each for each in events if isinstance(each, DocumentInFlight)])
            for each in events:
                if isinstance(each, DeletionInFlight):
                    outcomes[each] = await self._forget(each)
        return [outcomes.get(document) for document in documents]

    async def _write(self, documents: Documents) -> dict[EventInFlight, Refusal | None]:
        outcomes: dict[EventInFlight, Refusal | None] = {}
        fit = []
        for document in documents:
            document.expires = self.catalogue.capabilities_of(document.collection).expires
            value = document.event.expires_at
            if document.expires and value is not None and stamp(value) is None:
                outcomes[document] = invalid(EXPIRES_AT, _NO_TIME, value)
            else:
                fit.append(document)
        for collection, there in by_key(newest(fit), lambda each: each.collection).items():
            for op, write in (("upsert", self._upsert), ("delete", self._delete), ("patch", self._patch)):
                if batch := [document for document in there if document.event.op == op]:
                    physical = self._assign_target(collection, batch)
                    guarded = partial(self._deletion.guard, physical, write=write)
                    # Where the rate is bounded, a call for all of them would begin again with each that waits.
                    most = self.qdrant.limits_of(physical).points or len(batch)
                    for part in chunks(batch, most):
                        outcomes.update(zip(part, await write_all(part, guarded), strict=True))
        missing = (document for document in documents if document.missing)
        return outcomes | {document: InputError(DeadLetterClass.NOT_FOUND, _NOT_FOUND) for document in missing}

    async def _forget(self, deletion: DeletionInFlight) -> Refusal | None:
        """Delete what a deletion of many names. Its error, if it is refused."""
        filters, able = deletion.event.filters, self.catalogue.capabilities_of(deletion.collection)
        physical = self._assign_target(deletion.collection, [deletion])
        forgotten = Forgotten.of(deletion.version, [able.condition(each) for each in filters])
        try:
            if able.indexed is not None:
                check_indexes(on_fields(filters, "filters"), able.indexed)
            forget = partial(self._deletion.forget, physical, deletion, forgotten)
            [error] = await write_all([deletion], lambda _: forget())
        except InputError as refused:
            return refused
        return error

    async def _upsert(self, physical: str, batch: Documents) -> None:
        bm25 = self.catalogue.analyser(batch[0].collection)
        made = partial(points.point, names=self.names, bm25=bm25, context=self.context)
        for document in batch:
            document.patches = {}
        await self.qdrant.upsert(physical, list(map(made, batch)), points.writable(batch), timeout=self.timeout)
        # Most points have no patch. Those that have one were left alone, and are written one by one.
        due = await self._unwritten(physical, batch)
        while due:
            for document, payload in due:
                document.patches = points.patches_over(payload, document.version)
                condition = points.writable([document], payload.get(PATCHED))
                await self.qdrant.upsert(physical, [made(document)], condition, timeout=self.timeout)
            due = await self._unwritten(physical, [document for document, _ in due])

    async def _unwritten(self, physical: str, batch: Documents) -> list[tuple[DocumentInFlight, Payload]]:
        """The upserts that the index has neither as they were written nor newer, with the patches that it has."""
        ids = [document.point_id for document in batch]
        found = await self.qdrant.retrieve(physical, ids, (VERSION, PATCHES, PATCHED), timeout=self.timeout)
        due = []
        for document in batch:
            # One that is not there may have had patches when it was to be written, and be deleted since.
            payload = found.get(document.point_id, {})
            if payload.get(VERSION, -math.inf) > document.version:
                continue
            written = document.version, points.hash_patches(document.patches)
            if (payload.get(VERSION), payload.get(PATCHED)) != written:
                due.append((document, payload))
        return due

    async def _delete(self, physical: str, batch: Documents) -> None:
        for part in points.deletable(batch, self.qdrant.limits_of(physical).conditions):
            await self.qdrant.delete(physical, part, timeout=self.timeout)

    async def _patch(self, physical: str, batch: Documents) -> None:
        """Apply patches, and read again until the index has them all."""
        due = by_key(batch, lambda each: each.point_id)
        again = False
        while due:
            changed = frozenset().union(*(document.event.changed for document in batch))
            names = sorted({*points.read_by_patches(self.context), FIELDS, *changed})
            found = await self.qdrant.retrieve(physical, list(due), names, timeout=self.timeout)
            changes = {}
            for id_, there in due.items():
                if id_ not in found:
                    for document in there:
                        document.missing = True
                elif (change := points.change_of(found[id_], there, self.context, again=again)) is not None:
                    changes[id_] = change
            if changes:
                await self.qdrant.change(physical, list(changes.values()), timeout=self.timeout)
            due, again = {id_: due[id_] for id_ in changes}, True

    def _assign_target(self, collection: str, batch: Sequence[EventInFlight]) -> str:
        """The collection to write to, which the documents' watermarks name: an alias may be given to another."""
        physical = self.catalogue.capabilities_of(collection).name
        for document in batch:
            document.physical = physical
        return physical
