"""Watermarks: how far each namespace of a collection is indexed, published with the offsets that it stands for."""

from bytewax import operators as op
from bytewax.dataflow import Stream, operator
from opentelemetry.trace import Tracer

from operators.delivery.dead_letters import undeliverable
from operators.indexing.document import DocumentInFlight
from operators.query.message import OutputRecord, Rejected


def watermark(document: DocumentInFlight, topic: str) -> OutputRecord:
    """The record that says that a document is applied; of one key a transaction sends the last.

    Key `collection|namespace|documents partition`, value the document's offset: re-delivery doesn't move it.
    """
    origin = document.message.origin
    key = f"{document.held or document.collection}|{document.namespace}|{origin.partition}"
    return OutputRecord(origin, topic, key.encode(), str(origin.offset).encode(), (), compacts=True)


@operator
def publish_watermarks(
    step_id: str,
    applied: Stream[list[DocumentInFlight]],
    dead: Stream[list[Rejected]],
    watermarks: str,
    dead_letters: str,
    tracer: Tracer,
) -> Stream[list[OutputRecord]]:
    """Applied documents and dead letters in, their terminal records out."""
    moved = op.map("watermarks", applied, lambda batch: [watermark(document, watermarks) for document in batch])
    letters = op.map(
        "dead_letters", dead, lambda batch: [undeliverable(rejected, dead_letters, tracer) for rejected in batch]
    )
    return op.merge("terminals", moved, letters)
