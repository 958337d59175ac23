"""Suitability: the needs of searches from a collection's vectors, the effect of each difference, and its remedy.

`rankstream check` prints it, the search flow logs it, and readiness depends on it, all of them in these words.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.collections.analysers import Purposes, fields_of, missing_terms, other_prompts
from operators.indexing.inspection import Schema, Wanted, describe, lack
from schemas.result import FUZZY, LEARNED
from schemas.settings import QdrantSettings

CORRECT: Final = "Correct qdrant.dimension and qdrant.vectors, or use another collection."
"""The remedy of an operator for a vector that differs."""


INDEX_AGAIN: Final = (
    "Index all documents again, into a collection that rankstream creates: rankstream reindex does it while queries go"
    " on, see docs/how-to/reindexing.md."
)


BY_KEY: Final = "Qdrant takes no document without a shard key here (sharding_method: custom)"
UNKEYED: Final = "Name a collection that does not exist, which is then created, or one without shard keys."
"""The fault of a collection that documents are to be written to, and the remedy of an operator."""

_PROMPT_AGAIN: Final = (
    "Correct embedder.prompts and the prefixes, or index all documents again, into a collection that rankstream"
    " creates: see docs/how-to/reindexing.md."
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault that keeps searches from working (`error`), or from working as well as configured, and its remedy."""

    level: Literal["warning", "error"]
    what: str
    remedy: str


def vectors(settings: QdrantSettings) -> Wanted:
    """The needs of rankstream in a collection's vectors, without the indexes: cosine, BM25, token vectors, others."""
    names = settings.vectors
    wanted: dict[str, Schema] = {names.dense: {"size": settings.dimension, "distance": "Cosine"}}
    if names.tokens is not None:
        comparator = {"comparator": "max_sim"}
        wanted[names.tokens] = {"size": settings.dimension, "distance": "Dot", "multivector_config": comparator}
    sparse = {} if names.sparse is None else {names.sparse: {"modifier": "idf"}}
    context = None
    if settings.context.on:
        context = names.dense_context, names.sparse_context
        wanted[names.dense_context] = wanted[names.dense]
        sparse[names.sparse_context] = {"modifier": "idf"}
    sparse |= {name: {} for name in (names.learned, names.fuzzy) if name is not None}
    return Wanted(
        names.dense,
        names.sparse,
        names.tokens,
        wanted,
        sparse,
        {},
        context,
        names.learned,
        names.fuzzy,
        None if settings.of_another_tool else settings.search_fields,
    )


def searchable(wanted: Wanted, info: CollectionInfo) -> bool:
    """True if Qdrant takes searches by vector; for a collection without dense vectors, if it takes keywords."""
    if not info.vectors:
        return wanted.sparse in info.sparse_vectors
    return not any(each.refused for each in lack(wanted, info).dense)


def absent(settings: QdrantSettings) -> Problem:
    """That a collection isn't there; what another tool fills, it creates."""
    correct = "orrect qdrant.destinations and qdrant.collections."
    remedy = f"C{correct}" if settings.of_another_tool else f"Run rankstream collections --create, or c{correct}"
    return Problem("error", "the collection does not exist", remedy)


def problems(
    wanted: Wanted,
    info: CollectionInfo,
    *,
    late_interaction: bool,
    mixed: bool = False,
    purposes: Purposes | None = None,
) -> Iterator[Problem]:
    """The parts that searches of an existing collection do without.

    `late_interaction`: it is the configured reranker. `mixed`: the firewall is on, and contexts don't know of it.
    `purposes` are the embedder's prompts; None without an embedder.
    """
    lacking = lack(wanted, info)
    if all(each.mild for each in lacking.dense) and lacking.dense:
        yield Problem("warning", f"scores of the vector leg are no cosines: {describe(lacking.dense)}", CORRECT)
    elif lacking.dense:
        yield Problem(
            "error", f"the vector leg cannot search: {describe(lacking.dense)}{_others(wanted, info)}", CORRECT
        )
    if (noted := other_prompts(purposes, info)) is not None:
        differ = f"the index was made with {_as_json(noted)}, and the configuration has {_as_json(purposes or {})}"
        yield Problem("warning", f"the vector leg finds less: prompts differ: {differ}", _PROMPT_AGAIN)
    if lacking.sparse:
        finds = "ranks otherwise" if all(each.mild for each in lacking.sparse) else "finds nothing"
        yield Problem("warning", f"the keyword leg {finds}: {describe(lacking.sparse)}", CORRECT)
    if (terms := missing_terms(info)) is not None:
        outdated = f"the index was made by an earlier version, without {terms}"
        yield Problem("warning", f"the keyword leg finds less: {outdated}", INDEX_AGAIN)
    elif wanted.searched is not None and (fields := fields_of(info)) is not None and fields != wanted.searched:
        differ = f"searches {_weights(fields)}, and the configuration has {_weights(wanted.searched)}"
        yield Problem("warning", f"the keyword leg {differ}", INDEX_AGAIN)
    for leg, missing in ((LEARNED, lacking.learned), (FUZZY, lacking.fuzzy)):
        if missing:
            remedy = f"Index into a collection that rankstream creates, or correct qdrant.vectors.{leg}."
            yield Problem("warning", f"the leg {leg} finds nothing: {describe(missing)}", remedy)
    if lacking.context:
        remedy = "Index into a collection that rankstream creates, or set qdrant.context.order_by to null."
        yield Problem(
            "warning", f"documents are not searched with their neighbours: {describe(lacking.context)}", remedy
        )
    if mixed:
        found = "contexts may hold words of neighbours of another classification or with other labels"
        yield Problem("warning", f"documents are not searched with their neighbours: {found}", INDEX_AGAIN)
    if lacking.tokens and late_interaction:
        remedy = "Index into a collection that rankstream creates, name another reranker, or set rerank.kind to none."
        yield Problem("warning", f"late interaction is off here: {describe(lacking.tokens)}", remedy)


def _weights(fields: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {weight:g}" for name, weight in fields.items())


def _as_json(purposes: Purposes) -> str:
    return json.dumps(purposes) if purposes else "none"


def _others(wanted: Wanted, info: CollectionInfo) -> str:
    """The names by which it may be meant, where the dense vector isn't there."""
    if wanted.dense in info.vectors:
        return ""
    there = ", ".join(f"{name or 'the unnamed one'} ({has.get('size')})" for name, has in info.vectors.items())
    return f"; the collection has {there}" if there else "; the collection has none"
