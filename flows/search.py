"""The search flow, as its diagram:

queries -> decode -> admit -> lookup -> embed -> anchor -> recall -> retrieve -> fuse -> fetch -> rerank -> pick
             |        |denied   |exact                      |semantic   |failed                             |
             |        |expired  |  cache                    |   cache   |                                   v
             |        +---------+---------------------------+-----------+---- every `.answered` --> publish -> results
             +-- every `.dead` -> dead letters -------------------------------------------------------^
watermarks ---------------------^ asked once a poll; publish fills the caches that lookup and recall look into
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
from operators.lookup import lookup, recall
from operators.publish import publish
from operators.rerank import rerank
from operators.retrieve import retrieve


def search(parts: Parts) -> Dataflow:
    """Every query in, exactly one terminal record out."""
    p = parts
    flow = Dataflow("search")
    queries = op.input("queries", flow, QuerySource(p.intake, p.wakeup))

    decoded = decode("decode", queries, p.decoder)
    admitted = admit("admit", decoded.on, p.admission)
    looked_up = lookup("lookup", admitted.on, p.answers, p.watermarks, p.calls, p.patience)
    embedded = embed("embed", looked_up.on, p.embeddings, p.calls)
    anchored = anchor("anchor", embedded.on, p.anchors, p.calls, p.bounds.chat)
    recalled = recall("recall", anchored.on, p.answers)
    retrieved = retrieve("retrieve", recalled.on, p.qdrant, p.searches, p.tracer, p.calls, p.bounds.qdrant)
    fused = fuse("fuse", retrieved.on)
    fetched = fetch("fetch", fused.on, p.qdrant, p.depth, p.calls, p.bounds.qdrant)
    reranked = rerank("rerank", fetched.on, p.reranking, p.calls)
    picked = rerank("pick", reranked.on, p.picking, p.calls)

    stages = (decoded, admitted, looked_up, embedded, anchored, recalled, retrieved, fused, fetched, reranked, picked)
    answered = op.merge("answered", picked.on, *(stage.answered for stage in stages))
    dead = op.merge("dead", *(stage.dead for stage in stages))

    terminals = publish("publish", answered, dead, p.ending)
    op.output("results", terminals, DeliverySink(p.delivery))
    return flow
