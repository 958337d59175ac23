"""Watermarks: how far each namespace of a collection is indexed, published with the offsets that it stands for."""

from bytewax import operators as op
from bytewax.dataflow import Stream, operator

from operators.delivery.dead_letters import undeliverable
from operators.indexing.document import DocumentInFlight
from operators.query.message import OutputRecord, Rejected
from operators.runtime.stage import Batch, Batches
from operators.telemetry.signals import Signals


def watermark(document: DocumentInFlight, topic: str) -> OutputRecord:
    """The record that says that a document is applied; of one key a transaction sends the last.

    Key `collection|namespace|documents partition`, value the document's offset: re-delivery doesn't move it.
    """
    origin = document.message.origin
    key = f"{document.held or document.collection}|{document.namespace}|{origin.partition}"
    return OutputRecord(origin, topic, key.encode(), str(origin.offset).encode(), (), compacts=True)


@operator
def publish_watermarks(
    step_id: str, up: Batches, watermarks: str, dead_letters: str, signals: Signals
) -> Stream[list[OutputRecord]]:
    """Applied documents and refused messages in, their terminal records out."""

    def ended(item: DocumentInFlight | Rejected) -> OutputRecord:
        if isinstance(item, Rejected):
            return undeliverable(item, dead_letters, signals)
        return watermark(item, watermarks)

    def process_batch(batches: list[Batch]) -> list[list[OutputRecord]]:
        records = [ended(item) for items in batches for item in items]
        return [records] if records else []

    return op.flat_map_batch("records", op.key_rm("batches", up), process_batch)
