"""Recorded pools: what production saw, ranked by other recipes and judged, without an index."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from flows.cli.evaluation import DEPTH, Row, Variant, about, check_documents, read_qrels, row
from flows.cli.rank import PoolRanker, ReadPool
from schemas.errors import DeadLetterClass, InputError

Judgements = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Recorded:
    """The pools of judged queries, by query, and the judgements of these queries.

    `unrecorded`: judged queries whose results carry no pool; they don't count.
    """

    pools: Mapping[str, ReadPool]
    judged: Judgements
    unrecorded: int = 0

    @property
    def reranked(self) -> int:
        """How many pools hold what a reranker said."""
        return sum(read.pool.rerank is not None for read in self.pools.values())


def recorded(path: Path, qrels: Path, ranker: PoolRanker) -> Recorded:
    """Read a JSON Lines file of pools, or of results that carry them, and the judgements about their queries.

    Raises InputError for a line that is neither, for two different pools of a query, and for judgements that find none
    of the queries, or none of the pools' documents, relevant.
    """
    every = read_qrels(qrels)
    pools: dict[str, ReadPool] = {}
    lines: dict[str, int] = {}
    without: set[str] = set()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                read = ranker.read(line)
            except InputError as error:
                if (query := _unrecorded(line, error)) is None:
                    raise InputError(error.kind, f"{path}:{number}: {error}") from error
                without.add(query)
                continue
            query = read.pool.query.query_id
            if query not in every:
                continue
            if query in pools and pools[query].pool != read.pool:
                twice = f"{path}:{number}: query {query} has another pool in line {lines[query]}"
                raise InputError(DeadLetterClass.INVALID, twice)
            # A pool is large: what is ranked and judged doesn't need it as JSON, too.
            pools[query], lines[query] = read._replace(document={}), number
    judged = about(every, pools.keys(), qrels, path)
    offered = (hit.id for read in pools.values() for leg in read.pool.legs for hit in leg.hits)
    check_documents(judged, offered, qrels, path)
    return Recorded(pools, judged, len(without & every.keys() - pools.keys()))


def ranked(recorded: Recorded, ranker: PoolRanker, variants: Iterable[Variant], runs: Path | None) -> Iterator[Row]:
    """Rank every pool once in each way, and judge; `runs` is a directory for TREC runs.

    Without any recorded rerank score no way has a model. Raises InputError naming the query.
    """
    for variant in variants:
        if variant.rerank and not recorded.reranked:
            continue
        by_recipe = replace(ranker, recipe=variant.recipe)
        found: dict[str, list[tuple[str, float]]] = {}
        answered: Counter[str] = Counter()
        for query, read in recorded.pools.items():
            try:
                status, order = by_recipe.order(asking(read, rerank=variant.rerank))
            except InputError as error:
                raise InputError(error.kind, f"query {query}, recipe {variant.recipe.name}: {error}") from error
            found[query] = order[:DEPTH]
            answered[status.value] += 1
        yield row(variant.name, found, answered, recorded.judged, runs)


def asking(read: ReadPool, *, rerank: bool) -> ReadPool:
    """The pool, as if its query had asked for a reranker, or for none."""
    query = read.pool.query.model_copy(update={"rerank": rerank})
    return read._replace(pool=read.pool.model_copy(update={"query": query}))


def _unrecorded(line: bytes, error: InputError) -> str | None:
    """The query of a result that carries no pool; None for any other line that can't be read."""
    if error.field != "pool":
        return None
    result = orjson.loads(line)
    query = result.get("query_id")
    return query if "result_id" in result and isinstance(query, str) else None
