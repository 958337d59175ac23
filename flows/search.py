"""The search flow, as its diagram:

queries ▶ decode ▶ admit ▶ lookup ▶ embed ▶ semantic lookup ┬▶ leg vector ────┐
                              ▲                             ├▶ leg keyword ───┤
                          watermarks                        ├▶ leg structured ┼▶ fuse ▶ texts ▶ rerank ▶ publish
                                                            └─ passing by ────┘                            │
                                                                              results, dead letters ◀──────┘

Where there is a topic of rules, admit takes those of the query's namespace, and the documents that they pin have a leg.
Where there are experiments, admit chooses their queries, and a step ahead of the page ranks these by another recipe.

All batches pass through each step. What is answered, or rejected, passes by the steps behind, up to publish. A step
whose backend is not configured is not built. Beside those of the picture there is one ahead of decode, for queries
behind the id of a schema, and steps for what some recipes ask: the time that a query names, a sparse encoder with the
leg `learned`, a branch for each further leg, the leg `fuzzy` for queries with a word that no other leg
found, the similarity of candidates, a chat model's pick with the texts that it reads, the neighbours of the results,
and the places of passages in texts that have no word of the query. Publish fills the caches that both lookups read.
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.assembly.search import Parts
from operators.delivery.sink import DeliverySink
from operators.delivery.source import MessageSource
from operators.runtime.stage import async_stage, last_stage, sync_stage
from operators.stages.fuse import fuse
from operators.stages.leg import branches, pass_by
from operators.stages.rerank import rerank
from operators.stages.temporal_expression import temporal_expression


def search(parts: Parts) -> Dataflow:
    """Every query in, exactly one output record out."""
    p = parts
    flow = Dataflow("search")
    queries = op.input("queries", flow, MessageSource(p.consumer_loop))

    deserialised = async_stage("deserialise", queries, p.deserialiser, p.calls)
    decoded = sync_stage("decode", deserialised, p.decoder)
    admitted = sync_stage("admit", decoded, p.admission)
    looked_up = async_stage("lookup", admitted, p.lookup, p.calls)
    embedded = async_stage("embed", looked_up, p.embeddings, p.calls)
    dated = temporal_expression("temporal_expression", embedded, p.temporal_expressions, p.calls)
    similar = sync_stage("semantic_lookup", dated, p.answers.semantic_lookup)
    encoded = async_stage("encode", similar, p.encodings, p.calls)
    searched = sync_stage("searches", encoded, p.searches, "retrieve")

    legs = branches(searched, p.legs, p.calls)
    passing = pass_by("passing_by", searched)
    fused = fuse("fuse", passing, *legs)

    respelt = async_stage("leg_fuzzy", fused, p.fuzzy, p.calls)
    compared = async_stage("similarity", respelt, p.comparing, p.calls)
    texts = async_stage("texts", compared, p.texts, p.calls)
    ranked = rerank("rerank", texts, p.reranking, p.calls)
    tried = sync_stage("experiment", ranked, p.experimenting)
    page = async_stage("page", tried, p.page, p.calls)
    picked = async_stage("pick", page, p.picking, p.calls)
    whole = async_stage("neighbours", picked, p.neighbours, p.calls)
    located = async_stage("locate", whole, p.locating, p.calls)
    output_records = last_stage("publish", located, p.finaliser)
    op.output("results", output_records, DeliverySink(p.delivery))
    return flow
