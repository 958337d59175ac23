"""The search flow, as its diagram:

queries -> decode -> admit -> embed -> anchor -> retrieve -> fuse -> fetch -> rerank -> pick -> publish -> results
             |        |expired                     |failed                                       ^
             |        +----------------------------+----------- every `.answered` ---------------+
             +-- every `.dead` -> dead letters --------------------------------------------------+
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.parts import Parts
from operators.admit import admit
from operators.anchor import anchor
from operators.decode import decode
from operators.delivery.sink import DeliverySink
from operators.delivery.source import QuerySource
from operators.embed import embed
from operators.fetch import fetch
from operators.fuse import fuse
from operators.publish import publish
from operators.rerank import rerank
from operators.retrieve import retrieve


def search(parts: Parts) -> Dataflow:
    """Every query in, exactly one terminal record out."""
    p = parts
    flow = Dataflow("search")
    queries = op.input("queries", flow, QuerySource(p.intake, p.wakeup))

    decoded = decode("decode", queries, p.decoder)
    admitted = admit("admit", decoded.on, p.bm25)
    embedded = embed("embed", admitted.on, p.embeddings, p.calls)
    anchored = anchor("anchor", embedded.on, p.anchors, p.calls, p.bounds.chat)
    retrieved = retrieve("retrieve", anchored.on, p.qdrant, p.searches, p.tracer, p.calls, p.bounds.qdrant)
    fused = fuse("fuse", retrieved.on)
    fetched = fetch("fetch", fused.on, p.qdrant, p.depth, p.calls, p.bounds.qdrant)
    reranked = rerank("rerank", fetched.on, p.reranking, p.calls)
    picked = rerank("pick", reranked.on, p.picking, p.calls)

    stages = (decoded, admitted, embedded, anchored, retrieved, fused, fetched, reranked, picked)
    answered = op.merge("answered", picked.on, *(stage.answered for stage in stages))
    dead = op.merge("dead", *(stage.dead for stage in stages))

    terminals = publish("publish", answered, dead, p.publisher, p.tracer)
    op.output("results", terminals, DeliverySink(p.delivery))
    return flow
