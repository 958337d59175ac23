"""Changing the modifier of a sparse vector that holds points, which the engine can do for an empty one only."""

from qdrant_edge import EdgeShard, Modifier, PointVectors, ScrollRequest, UpdateOperation

from operators.clients.qdrant_edge.shards import Collection
from tests.qdrant_server.refusals import run

# Points in one update.
PORTION = 1000


def change_modifier(shard: Collection, name: str, modifier: str) -> None:
    """Make the vector anew with this modifier, `idf` or `none`, and give it what it held."""
    run(shard, lambda each: _change(each, name, Modifier.Idf if modifier == "idf" else None))


def _change(shard: EdgeShard, name: str, modifier: Modifier | None) -> None:
    vectors = _held(shard, name)
    shard.update(UpdateOperation.delete_vector_name(name))
    shard.update(UpdateOperation.create_sparse_vector(name, modifier))
    for start in range(0, len(vectors), PORTION):
        shard.update(UpdateOperation.update_vectors(vectors[start : start + PORTION]))


def _held(shard: EdgeShard, name: str) -> list[PointVectors]:
    points, _ = shard.scroll(ScrollRequest(limit=shard.info().points_count, with_vector=True))
    named = ((point.id, point.vector) for point in points)
    return [
        PointVectors(each, {name: vector[name]})
        for each, vector in named
        if isinstance(vector, dict) and name in vector
    ]
