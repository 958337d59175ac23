"""Watermarks: how far each namespace of a collection is indexed, published with the offsets that it stands for.

A namespace that was deleted and has no document any more has no watermark, either: answers of such a namespace are not
cached. Its next document gives it one again.
"""

from dataclasses import replace

from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.delivery.output_record import Form, OutputRecord
from operators.delivery.way_out import WayOut
from operators.indexing.document import DeletionInFlight, EventInFlight
from operators.runtime.stage import Batch, Batches
from operators.wire.message import Rejected


def watermark(document: EventInFlight, topic: str) -> OutputRecord:
    """The record that says that a document is applied; of one key a transaction sends the last.

    Key `collection|namespace|documents partition`, value the document's offset: re-delivery doesn't move it.
    """
    origin = document.message.origin
    key = f"{document.physical or document.collection}|{document.namespace}|{origin.partition}"
    return OutputRecord(topic, key.encode(), str(origin.offset).encode(), origin=origin, form=Form.WATERMARK)


def removals(deletion: DeletionInFlight, topic: str, partitions: int) -> list[OutputRecord]:
    """The records that remove a namespace's watermarks of all partitions of the documents topic: they have no value."""
    own = watermark(deletion, topic)
    names = (own.key or b"").rpartition(b"|")[0]
    numbers = range(max(partitions, deletion.message.origin.partition + 1))
    return [replace(own, key=b"%b|%d" % (names, number), value=None) for number in numbers]


@operator
def publish_watermarks(
    step_id: str, up: Batches, watermarks: str, partitions: int, way_out: WayOut
) -> Stream[list[OutputRecord]]:
    """Applied documents and refused messages in, their terminal records out. The documents topic has `partitions`."""

    def end(item: EventInFlight | Rejected) -> list[OutputRecord]:
        if isinstance(item, Rejected):
            return way_out.refuse(item)
        if isinstance(item, DeletionInFlight) and item.emptied:
            return removals(item, watermarks, partitions)
        return [watermark(item, watermarks)]

    def process_batch(batches: list[tuple[str, Batch]]) -> list[list[OutputRecord]]:
        records = [record for _, items in batches for item in items for record in end(item)]
        return [records] if records else []

    return op.flat_map_batch("records", up, process_batch)
