"""The search flow, as its diagram:

queries -> decode -> admit -> lookup -> embed -> temporal expression -> semantic lookup -> retrieve -> fuse
                                 ^                                                                       v
                             watermarks                                                              similarity
                                                                                                         v
                    results <- publish <- pick <- page <- rank <- rerank <- texts <----------------------+
               dead letters <----+

Each stage is one step of the engine, and batches pass through all of them: what is answered, or rejected, early passes
by the stages behind, up to publish. A stage whose backend is not configured is not built. Publish fills the caches that
both lookups read.
"""

from bytewax import operators as op
from bytewax.dataflow import Dataflow

from flows.assembly.search import Parts
from operators.delivery.sink import DeliverySink
from operators.delivery.source import MessageSource
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
from operators.stages.similarity import similarity
from operators.stages.temporal_expression import temporal_expression


def search(parts: Parts) -> Dataflow:
    """Every query in, exactly one output record out."""
    p = parts
    flow = Dataflow("search")
    queries = op.input("queries", flow, MessageSource(p.consumer_loop, p.wakeup))

    decoded = decode("decode", queries, p.decoder)
    admitted = admit("admit", decoded, p.admission)
    looked_up = lookup("lookup", admitted, p.lookup, p.calls)
    embedded = embed("embed", looked_up, p.embeddings, p.calls)
    dated = temporal_expression("temporal_expression", embedded, p.temporal_expressions, p.calls)
    similar = semantic_lookup("semantic_lookup", dated, p.answers)
    retrieved = retrieve("retrieve", similar, p.retriever, p.calls)
    fused = fuse("fuse", retrieved)
    compared = similarity("similarity", fused, p.comparing, p.calls)
    texts = fetch("texts", compared, p.texts, p.calls)
    reranked = rerank("rerank", texts, p.reranking, p.calls)
    ranked = rank("rank", reranked)
    page = fetch("page", ranked, p.page, p.calls)
    picked = rerank("pick", page, p.picking, p.calls)
    output_records = publish("publish", picked, p.finaliser)
    op.output("results", output_records, DeliverySink(p.delivery))
    return flow
