"""The indexing flow, as its diagram:

documents -> decode -> embed -> apply -> watermarks
              |dead     |dead    |dead
              +---------+--------+-> dead letters
"""

from dataclasses import dataclass

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from opentelemetry.trace import Tracer

from operators.delivery.sink import Delivery, DeliverySink
from operators.delivery.source import ConsumerLoop, MessageSource
from operators.indexing.apply import DocumentEmbedder, Writer, apply, embed_document
from operators.indexing.decode import DocumentDecoder, decode_document
from operators.indexing.watermark import publish_watermarks
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.wakeup import Wakeup


@dataclass(frozen=True)
class IndexingParts:
    """What the indexing flow is built from."""

    consumer_loop: ConsumerLoop
    delivery: Delivery
    wakeup: Wakeup
    calls: EventLoopThread
    tracer: Tracer
    decoder: DocumentDecoder
    embedder: DocumentEmbedder
    writer: Writer
    watermarks: str
    dead_letters: str


def indexing(parts: IndexingParts) -> Dataflow:
    """Every document event in; applied and in the watermark, or a dead letter."""
    p = parts
    flow = Dataflow("indexing")
    documents = op.input("documents", flow, MessageSource(p.consumer_loop, p.wakeup))

    decoded = decode_document("decode", documents, p.decoder)
    embedded = embed_document("embed", decoded.on, p.embedder, p.calls)
    applied = apply("apply", embedded.on, p.writer, p.calls)
    dead = op.merge("dead", decoded.dead, embedded.dead, applied.dead)

    output_records = publish_watermarks("publish", applied.on, dead, p.watermarks, p.dead_letters, p.tracer)
    op.output("watermarks", output_records, DeliverySink(p.delivery))
    return flow
