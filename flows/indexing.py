"""The indexing flow, as its diagram:

documents -> decode -> embed -> apply -> context -> publish -> watermarks
                                                       +-----> dead letters

What a stage rejects passes by the stages behind it. The stage `context` is built where documents are indexed together
with their neighbours.
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.assembly.indexing import IndexingParts
from operators.delivery.sink import DeliverySink
from operators.delivery.source import MessageSource
from operators.indexing.apply import apply, embed_document
from operators.indexing.context import write_context
from operators.indexing.decode import decode_document
from operators.indexing.watermark import publish_watermarks


def indexing(parts: IndexingParts) -> Dataflow:
    """Every document event in; applied and in the watermark, or a dead letter."""
    p = parts
    flow = Dataflow("indexing")
    documents = op.input("documents", flow, MessageSource(p.consumer_loop, p.wakeup))

    decoded = decode_document("decode", documents, p.decoder)
    embedded = embed_document("embed", decoded, p.embedder, p.calls)
    applied = apply("apply", embedded, p.writer, p.calls)
    settled = write_context("context", applied, p.context, p.calls)
    output_records = publish_watermarks("publish", settled, p.watermarks, p.way_out)
    op.output("watermarks", output_records, DeliverySink(p.delivery))
    return flow
