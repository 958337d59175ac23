"""Watermarks: how far each namespace of a collection is indexed, published with the offsets that it stands for."""

from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.delivery.output_record import Form, OutputRecord
from operators.delivery.way_out import WayOut
from operators.indexing.document import EventInFlight
from operators.query.message import Rejected
from operators.runtime.stage import Batch, Batches


def watermark(document: EventInFlight, topic: str) -> OutputRecord:
    """The record that says that a document is applied; of one key a transaction sends the last.

    Key `collection|namespace|documents partition`, value the document's offset: re-delivery doesn't move it.
    """
    origin = document.message.origin
    key = f"{document.physical or document.collection}|{document.namespace}|{origin.partition}"
    return OutputRecord(origin, topic, key.encode(), str(origin.offset).encode(), (), form=Form.WATERMARK)


@operator
def publish_watermarks(step_id: str, up: Batches, watermarks: str, way_out: WayOut) -> Stream[list[OutputRecord]]:
    """Applied documents and refused messages in, their terminal records out."""

    def end(item: EventInFlight | Rejected) -> list[OutputRecord]:
        return way_out.refuse(item) if isinstance(item, Rejected) else [watermark(item, watermarks)]

    def process_batch(batches: list[tuple[str, Batch]]) -> list[list[OutputRecord]]:
        records = [record for _, items in batches for item in items for record in end(item)]
        return [records] if records else []

    return op.flat_map_batch("records", up, process_batch)
