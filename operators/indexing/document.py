"""The event in flight, which events of a batch are applied, and the watermarks that say how far a namespace is indexed.

A namespace that was deleted and has no document any more has no watermark, either: answers of such a namespace are not
cached. Its next document gives it one again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from operators.delivery.output_record import OutputRecord, RecordForm
from operators.delivery.way_out import WayOut
from operators.mapping.own_names import OwnNames
from operators.query.backend_answers import Embedding
from operators.ranking.content import join_fields
from operators.text.terms import SparseVector
from operators.wire.message import Message, Rejected
from schemas.document import COLUMNS, DeletionEvent, DocumentEvent, point_id
from schemas.errors import DeadLetterClass

NOT_PAYLOAD: Final = {"schema_version", "op", "vector"}
"""Fields of an event that its document does not have."""

Patches = Mapping[str, tuple[int, Any]]
"""Changed fields: version and value of each; a value of None is a field that was removed."""


@dataclass(slots=True, eq=False)
class EventInFlight:
    """One event of the documents topic on its way; `collection` is the configured name of a Qdrant collection,
    `physical` its own name once the event is applied, and empty before.
    """

    message: Message
    event: DocumentEvent | DeletionEvent
    destination: str
    namespace: str
    collection: str
    point_id: str
    version: int
    physical: str = ""
    answered: ClassVar = False

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
        """The refusal of the event's message."""
        return Rejected(self.message, kind, stage, reason, field=field)


@dataclass(slots=True, eq=False)
class DeletionInFlight(EventInFlight):
    """The deletion of a namespace's documents; its point is the namespace's tombstone. `emptied`: it left none."""

    event: DeletionEvent
    emptied: bool = False


@dataclass(slots=True, eq=False)
class DocumentInFlight(EventInFlight):
    """One document event on its way.

    `read` are the fields whose texts the models read. `patches` are those of the index that hold over an upsert.
    `lifetime` are the seconds until it expires where it has no `expires_at`, if its collection `expires` documents.
    A `hidden` document is written without its namespace, so that no query finds it. `missing`: a patch found none.
    """

    event: DocumentEvent
    embedding: Embedding | None = None
    encoding: SparseVector | None = None
    read: tuple[str, ...] = COLUMNS
    patches: Patches = field(default_factory=dict)
    lifetime: float | None = None
    expires: bool = False
    hidden: bool = False
    missing: bool = False

    @property
    def tombstone_id(self) -> str:
        """The point of its namespace's tombstone."""
        return point_id(self.destination, self.namespace)

    @property
    def content(self) -> str:
        """The text that is embedded."""
        if self.read == COLUMNS:
            return self.event.content
        return join_fields(self.event.model_dump(exclude=NOT_PAYLOAD), self.read)


Documents = Sequence[DocumentInFlight]
Events = Sequence[EventInFlight]


def newest(documents: Documents) -> list[DocumentInFlight]:
    """The events of a batch that are applied: the newest of each point, for of an id that comes twice Qdrant keeps the
    older version; then patches in their order, without those that an upsert or a deletion behind them is done with.
    """
    whole: dict[tuple[str, str], DocumentInFlight] = {}
    patches: list[DocumentInFlight] = []
    # From the last one on: of equal versions that one stays.
    for document in reversed(documents):
        key = (document.collection, document.point_id)
        behind = whole.get(key)
        if behind is None or document.version > behind.version:
            if document.event.op == "patch":
                patches.append(document)
            else:
                whole[key] = document
    return [*whole.values(), *reversed(patches)]


def watermark(document: EventInFlight, topic: str) -> OutputRecord:
    """The record that says that a document is applied; of one key a transaction sends the last.

    Key `collection|namespace|documents partition`, value the document's offset: re-delivery doesn't move it.
    """
    origin = document.message.origin
    key = f"{document.physical or document.collection}|{document.namespace}|{origin.partition}"
    return OutputRecord(topic, key.encode(), str(origin.offset).encode(), origin=origin, form=RecordForm.WATERMARK)


def removals(deletion: DeletionInFlight, topic: str, partitions: int) -> list[OutputRecord]:
    """The records that remove a namespace's watermarks of all partitions of the documents topic: they have no value."""
    own = watermark(deletion, topic)
    names = (own.key or b"").rpartition(b"|")[0]
    numbers = range(max(partitions, deletion.message.origin.partition + 1))
    return [replace(own, key=b"%b|%d" % (names, number), value=None) for number in numbers]


@dataclass(frozen=True, slots=True)
class DocumentFinaliser:
    """Ends applied documents and refused messages. The documents topic has `partitions`.

    Dead letters say the senders' own `names` of fields; None where these are the index's.
    """

    watermarks: str
    partitions: int
    way_out: WayOut
    names: OwnNames | None = None

    def __call__(self, item: EventInFlight | Rejected) -> list[OutputRecord]:
        if isinstance(item, Rejected):
            named = replace(item, reason=self.names.reword(item.reason)) if self.names is not None else item
            return self.way_out.refuse(named)
        if isinstance(item, DeletionInFlight) and item.emptied:
            return removals(item, self.watermarks, self.partitions)
        return [watermark(item, self.watermarks)]
