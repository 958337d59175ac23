"""The feedback flow, as its diagram:

feedback -> decode -> join -> publish -> preferences
                                 +-----> dead letters

A preference leaves `join` when the window of its query closes; what `decode` rejects passes by. A stage `deserialise`
is built ahead of `decode` where there is a schema registry.
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.assembly.feedback import FeedbackParts
from operators.delivery.sink import DeliverySink
from operators.delivery.source import MessageSource
from operators.runtime.stage import async_stage, last_stage, sync_stage
from operators.stages.feedback import join


def learning(parts: FeedbackParts) -> Dataflow:
    """Every feedback event in; counted in the preference of its query, in no preference, or a dead letter."""
    p = parts
    flow = Dataflow("feedback")
    events = op.input("feedback", flow, MessageSource(p.consumer_loop))

    deserialised = async_stage("deserialise", events, p.deserialiser, p.calls)
    decoded = sync_stage("decode", deserialised, p.decoder)
    joined = join("join", decoded, p.join)
    output_records = last_stage("publish", joined, p.finaliser)
    op.output("preferences", output_records, DeliverySink(p.delivery))
    return flow
