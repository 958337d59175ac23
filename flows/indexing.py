"""The indexing flow, as its diagram:

documents -> decode -> embed -> encode -> apply -> context -> publish -> watermarks
                                                                 +-----> dead letters

What a stage rejects passes by the stages behind it. A stage `deserialise` is built ahead of `decode` where there is a
schema registry, `encode` where a sparse encoder is configured, `context` where documents are indexed together with
their neighbours.
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.assembly.indexing import IndexingParts
from operators.delivery.sink import DeliverySink
from operators.delivery.source import MessageSource
from operators.runtime.stage import async_stage, last_stage, sync_stage


def indexing(parts: IndexingParts) -> Dataflow:
    """Every document event in; applied and in the watermark, or a dead letter."""
    p = parts
    flow = Dataflow("indexing")
    documents = op.input("documents", flow, MessageSource(p.consumer_loop))

    deserialised = async_stage("deserialise", documents, p.deserialiser, p.calls)
    decoded = sync_stage("decode", deserialised, p.decoder)
    embedded = async_stage("embed", decoded, p.stages.embedder, p.calls)
    encoded = async_stage("encode", embedded, p.stages.encoder, p.calls)
    applied = async_stage("apply", encoded, p.stages.writer, p.calls)
    in_context = async_stage("context", applied, p.stages.context, p.calls)
    output_records = last_stage("publish", in_context, p.finaliser)
    op.output("watermarks", output_records, DeliverySink(p.delivery))
    return flow
