"""The search flow, as its diagram:

queries -> decode -> admit -> lookup -> embed -> temporal expression -> semantic lookup -> retrieve -> fuse -> texts
             |         |denied   |exact                                       |semantic       |failed             |
             |         |expired  |  cache                                     |   cache       |          rank <- rerank
             |         |         |                                            |               |            v
             |         +---------+---- every `.answered` ---------------------+---------------+- publish   page -> pick
             +-- every `.dead` -> dead letters -------------------------------------------------^   ^--------------|
watermarks ----------------------^ read once a poll                                             +-> results

A stage whose backend is not configured is not built. Publish fills the caches that both lookups read.
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.assembly.search import Parts
from operators.delivery.sink import DeliverySink
from operators.delivery.source import MessageSource
from operators.runtime.stage import merge
from operators.stages.admit import admit
from operators.stages.decode import decode
from operators.stages.embed import embed
from operators.stages.fetch import fetch
from operators.stages.fuse import fuse
from operators.stages.lookup import lookup
from operators.stages.publish import publish
from operators.stages.rank import rank
from operators.stages.rerank import rerank
from operators.stages.retrieve import retrieve
from operators.stages.semantic_lookup import semantic_lookup
from operators.stages.temporal_expression import temporal_expression


def search(parts: Parts) -> Dataflow:
    """Every query in, exactly one output record out."""
    p = parts
    flow = Dataflow("search")
    queries = op.input("queries", flow, MessageSource(p.consumer_loop, p.wakeup))

    decoded = decode("decode", queries, p.decoder)
    admitted = admit("admit", decoded.on, p.admission)
    looked_up = lookup("lookup", admitted.on, p.lookup, p.calls)
    embedded = embed("embed", looked_up.on, p.embeddings, p.calls)
    dated = temporal_expression("temporal_expression", embedded.on, p.temporal_expressions, p.calls)
    similar = semantic_lookup("semantic_lookup", dated.on, p.answers)
    retrieved = retrieve("retrieve", similar.on, p.retriever, p.calls)
    fused = fuse("fuse", retrieved.on)
    texts = fetch("texts", fused.on, p.texts, p.calls)
    reranked = rerank("rerank", texts.on, p.reranking, p.calls)
    ranked = rank("rank", reranked.on)
    page = fetch("page", ranked.on, p.page, p.calls)
    picked = rerank("pick", page.on, p.picking, p.calls)

    stages = (decoded, admitted, looked_up, embedded, dated, similar, retrieved, fused, texts, reranked, ranked, page)
    answered = merge("answered", picked.on, picked.answered, *(stage.answered for stage in stages))
    dead = merge("dead", picked.dead, *(stage.dead for stage in stages))

    output_records = publish("publish", answered, dead, p.finaliser)
    op.output("results", output_records, DeliverySink(p.delivery))
    return flow
