"""Gaps: the requirements of a configuration that a collection, or its server, does not meet. Nothing here asks Qdrant.

`rankstream check` and `collections` print them, the flows log them, and readiness and the start of `rankstream index`
depend on them: all read this one list.

- An index may do more than is needed of it. One that does less is a gap, and so is one that makes other terms.
- A field that Qdrant leaves out of a description has Qdrant's default.
- Notes are compared in rankstream's own collections alone: the terms of another program's are its affair.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from operators.clients.qdrant.answers import WHOLE_NUMBERS, CollectionInfo
from operators.collections import notes
from operators.collections.analysers import CURRENT, PLAIN
from operators.collections.requirements import (
    CORRECT,
    INDEXES,
    MINIMUM,
    STOPPED,
    VECTORS,
    Gap,
    Requirement,
    Schema,
    Severity,
    Surveyed,
    format_schema,
    parse_schema,
)
from schemas.result import FUZZY, LEARNED

_INDEX_AGAIN: Final = (
    "Index all documents again, into a collection that rankstream creates: rankstream reindex does it while queries go"
    " on, see docs/how-to/reindexing.md."
)
_ANOTHERS: Final = (
    "If no other program writes to it, add it to qdrant.owned; otherwise let qdrant.destinations and"
    " qdrant.collections name a collection that does not exist, which is then created."
)
_SPARE: Final = (
    "Do not search by this field, or index the documents into a collection that rankstream creates: the other program"
    " may rely on the index."
)
_INTO_NEW: Final = "Index into a collection that rankstream creates, or "

_MISSING_TERMS: Final = {
    PLAIN: "joined part numbers, and pairs of characters for scripts that write no spaces",
    CURRENT - 1: "sizes in one spelling, parts of words and of names in code, and joined names",
}
"""The terms that collections of earlier versions do not have."""

_LIMITS: Final = {
    "max_query_limit": "gives a search {} points at most, and a profile asks for {:g}: pages end earlier",
    "search_max_hnsw_ef": "bounds hnsw_ef to {}, and qdrant.search.hnsw_ef is {:g}: fewer of the nearest documents are"
    " found",
    "max_timeout": "bounds a request to {} s, and qdrant.timeout is {:g} s",
    "read_rate_limit": "allows {} searches a minute: those beyond it wait, or fail when their time is up",
    "write_rate_limit": "allows {} documents a minute: those beyond it wait, or fail when their time is up",
}
"""Limits of a collection's strict mode, each with what follows where it is lower than is needed."""

_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "keyword": {"prefix": False, "is_tenant": False},
    "integer": {"lookup": True, "range": True},
    "text": {
        "phrase_matching": False,
        "tokenizer": "word",
        "lowercase": True,
        **dict.fromkeys(("ascii_folding", "stopwords", "stemmer", "min_token_len", "max_token_len")),
    },
}
"""Type of an index -> its options, with Qdrant's defaults."""

_PRODUCTS: Final = frozenset({"Cosine", "Dot"})
_ONLY_FASTER: Final = frozenset({"is_tenant", "prefix", "lookup", "range"})
_ABILITIES: Final = _ONLY_FASTER | {"phrase_matching"}
"""Options that an index may have without need; each of the others makes other terms."""

_NO_STEMMER: Final = {"type": "none"}


def find_gaps(needs: Iterable[Requirement], found: Surveyed) -> list[Gap]:
    """The gaps of a collection, in the order of the requirements; of one that isn't there, that alone."""
    if (info := found.info) is None:
        return [_absent(need) for need in needs if need.kind == "presence"]
    gaps = [gap for need in needs for gap in _compare(need, info, found)]
    # Nothing is written to another program's collection, whatever else it lacks.
    return [gap if found.owner or gap.kind == "owner" else replace(gap, stops=False) for gap in gaps]


def is_searchable(needs: Iterable[Requirement], info: CollectionInfo) -> bool:
    """True if Qdrant takes searches by vector; for a collection without dense vectors, if it takes keywords."""
    if not info.vectors:
        return any(need.kind == "sparse" and need.name in info.sparse_vectors for need in needs)
    return all(gap.severity < Severity.FATAL for gap in find_gaps(needs, Surveyed("", "", info)))


def _absent(need: Requirement) -> Gap:
    """Gap of a collection that does not exist; rankstream creates only those that it fills itself."""
    correct = "orrect qdrant.destinations and qdrant.collections."
    cure = f"Run rankstream collections --create, or c{correct}" if need.wanted else f"C{correct}"
    return Gap(need, Severity.ERROR, "the collection does not exist", cure)


def find_server_gaps(version: str | None) -> Iterator[Gap]:
    """The gap of a server that is older than MINIMUM; none where its version isn't known."""
    number = tuple(int(each) for each in (version or "").split("-")[0].split(".")[:2] if each.isdecimal())
    if len(number) == 2 and number < MINIMUM:
        oldest = ".".join(map(str, MINIMUM))
        what = f"the server is Qdrant {version}, and rankstream needs {oldest} or newer: requests of it may fail"
        yield Gap(Requirement("server", oldest), Severity.PARTIAL, what, f"Upgrade Qdrant to {oldest} or newer.")


class _Role(NamedTuple):
    """A gap of a vector of this kind: its effect, the cure, the most that is lost, and the effect of another order.

    Without `ranks`, a vector that ranks otherwise is not searched. `rigid`: no document is written for it, either.
    """

    effect: str
    cure: str = CORRECT
    most: Severity = Severity.PARTIAL
    ranks: str = ""
    rigid: bool = False


_ROLES: Final[Mapping[str, _Role]] = {
    "dense": _Role("the vector leg cannot search", CORRECT, Severity.FATAL, "scores of the vector leg are no cosines"),
    "sparse": _Role("the keyword leg finds nothing", ranks="the keyword leg ranks otherwise"),
    **{
        leg: _Role(f"the leg {leg} finds nothing", f"{_INTO_NEW}correct qdrant.vectors.{leg}.", rigid=True)
        for leg in (LEARNED, FUZZY)
    },
    "context": _Role(
        "documents are not searched with their neighbours", f"{_INTO_NEW}set qdrant.context.order_by to null."
    ),
    "tokens": _Role("late interaction is off here", f"{_INTO_NEW}name another reranker, or set rerank.kind to none."),
    "unread": _Role("", most=Severity.NONE),
}


def _compare(need: Requirement, info: CollectionInfo, found: Surveyed) -> Iterator[Gap]:
    """The gaps of one requirement, by its kind; where `wanted` is no schema, a comment says what it is."""
    ours, exact = found.owner is not None, info.strict.get("search_allow_exact") is not False
    match need.kind:
        case kind if kind in VECTORS:
            yield from _compare_vector(need, info)
        case kind if kind in INDEXES:
            yield from _compare_index(need, info, found)
        case "alias" if found.target is not None:
            why = "made with other settings, or for another consumer group"
            what = f"the alias has {found.target}, {why}: flows stay with {found.physical}"
            cure = "Use the configuration of the new index: docs/how-to/reindexing.md."
            yield Gap(need, Severity.PARTIAL, what, cure)
        case "settings" if notes.generation_of(info) and need.wanted not in {None, notes.settings_of(info)}:
            what = "rankstream reindex made it with other settings, and no document is written to it with these"
            cure = "Run rankstream reindex with this configuration, or use the configuration that it was made with."
            yield Gap(need, Severity.ERROR, what, cure, STOPPED, stops=True)
        case "owner" if not ours:
            effect = f"another program created the collection, which rankstream only reads, and {STOPPED}"
            what = "it is not rankstream's own, and no document is written to it"
            yield Gap(need, Severity.PARTIAL, what, _ANOTHERS, effect, stops=True)
        case "shard keys" if info.by_key and ours:
            what = "Qdrant takes no document without a shard key here (sharding_method: custom)"
            cure = "Name a collection that does not exist, which is then created, or one without shard keys."
            yield Gap(need, Severity.ERROR, what, cure, STOPPED, stops=True)
        case "expiry" if ours and not notes.expires(info):
            # Wanted: a default age of documents.
            loss = Severity.PARTIAL if need.wanted else Severity.NONE
            what = "in this collection of an earlier version, expires_at is a field as any other"
            yield Gap(need, loss, what, _INDEX_AGAIN, "documents do not expire")
        case "prompts":
            yield from _compare_prompts(need, notes.notes_of(info).get(notes.PROMPTS))
        case "terms" if notes.OURS in info.metadata:
            yield from _compare_terms(need, info.metadata)
        case "contexts" if notes.mixed_contexts(need.wanted, info):
            # Needed by a firewall, which separates sources.
            what = "contexts may hold words of neighbours of another classification or with other labels"
            yield Gap(need, Severity.PARTIAL, what, _INDEX_AGAIN, _ROLES["context"].effect)
        case "shards" if need.name in info.sparse_vectors and (info.shards != 1 or info.by_key):
            several = "shards by key" if info.by_key else f"{info.shards} shards"
            counted = "Qdrant counts the rarity of a term in each: keyword scores depend on a document's shard"
            what = f"the collection has {several}, and {counted}"
            cure = "Use one shard where it holds the documents: docs/reference/collections.md."
            yield Gap(need, Severity.PARTIAL, what, cure)
        case "limit" if (bound := info.strict.get(need.name)) is not None and bound < need.wanted:
            what = f"strict mode {_LIMITS[need.name].format(bound, need.wanted)}"
            cure = f"Raise the limit in the strict mode of the collection ({need.name})."
            yield Gap(need, Severity.PARTIAL, what, cure)
        case "late interaction" if need.name in info.vectors:
            if not exact:
                what = "strict mode forbids exact searches: late interaction fetches the token vectors to compare them"
                yield Gap(need, Severity.PARTIAL, what, "Set search_allow_exact to true for less traffic.")
            # Wanted: tokens are counted.
            if need.wanted and (not exact or "max_query_limit" in info.strict):
                what = "strict mode forbids to count tokens: late interaction weighs rare and common tokens alike"
                cure = "Allow exact searches and any limit, or ignore it: it changes little."
                yield Gap(need, Severity.PARTIAL, what, cure)


def _compare_vector(need: Requirement, info: CollectionInfo) -> Iterator[Gap]:
    role = _ROLES[need.kind]
    compare = _dense if "size" in need.wanted else _sparse
    for severity, what in compare(need.name, need.wanted, info):
        differs = severity > Severity.SLIGHT or role.rigid
        loss = min(severity, role.most) if role.ranks else role.most
        if need.kind == "dense" and need.name not in info.vectors:
            there = ", ".join(f"{name or 'the unnamed one'} ({has.get('size')})" for name, has in info.vectors.items())
            what += f"; the collection has {there or 'none'}"
        yield Gap(need, loss, what, role.cure, role.effect if differs else role.ranks or role.effect, differs)


def _dense(name: str, wanted: Schema, info: CollectionInfo) -> Iterator[tuple[Severity, str]]:
    vector = f"the vector {name}" if name else "the unnamed vector"
    has = info.vectors.get(name)
    if has is None:
        yield Severity.FATAL, f"{vector} isn't there"
        return
    for parameter in ("size", "distance"):
        if has.get(parameter) != wanted[parameter]:
            # An inner product is searched and ranked like a cosine, though it is none: more is nearer.
            ranks = Severity.SLIGHT if has.get(parameter) in _PRODUCTS else Severity.ERROR
            severity = Severity.FATAL if parameter == "size" else ranks
            yield severity, f"{vector} has {parameter} {has.get(parameter)}, and should have {wanted[parameter]}"
    if has.get("datatype") == WHOLE_NUMBERS:
        yield Severity.ERROR, f"{vector} has the datatype {WHOLE_NUMBERS}, which keeps no fractions"
    if ("multivector_config" in wanted) != bool(has.get("multivector_config")):
        expected = "a multivector" if "multivector_config" in wanted else "a single vector"
        yield Severity.ERROR, f"{vector} should be {expected}"


def _sparse(name: str, wanted: Schema, info: CollectionInfo) -> Iterator[tuple[Severity, str]]:
    if name not in info.sparse_vectors:
        yield Severity.FATAL, f"the sparse vector {name} isn't there"
        return
    has, needed = info.sparse_vectors[name].get("modifier") or "none", wanted.get("modifier") or "none"
    if has != needed:
        yield Severity.SLIGHT, f"the sparse vector {name} has the modifier {has}, and should have {needed}"


def _compare_prompts(need: Requirement, noted: object) -> Iterator[Gap]:
    """Compare the prompts of the embedder; without an embedder none are wanted (None)."""
    if isinstance(noted, Mapping) and need.wanted is not None and noted != need.wanted:
        one, other = (json.dumps(each) if each else "none" for each in (noted, need.wanted))
        what = f"prompts differ: the index was made with {one}, and the configuration has {other}"
        again = "index all documents again, into a collection that rankstream creates: see docs/how-to/reindexing.md."
        cure = f"Correct embedder.prompts and the prefixes, or {again}"
        yield Gap(need, Severity.PARTIAL, what, cure, "the vector leg finds less")


def _compare_terms(need: Requirement, metadata: Mapping[str, Any]) -> Iterator[Gap]:
    """Compare the analyser and the searched fields."""
    wanted, searched = need.wanted
    try:
        noted, analysis, fields = notes.analysis_of(metadata)
    except ValueError:
        what = "its metadata about terms are none of this version's, and the configured analyser is used"
        yield Gap(need, Severity.PARTIAL, what, _INDEX_AGAIN, "the keyword leg may find less")
        return
    if (terms := _MISSING_TERMS.get(analysis)) is not None:
        what = f"the index was made by an earlier version, without {terms}"
        yield Gap(need, Severity.PARTIAL, what, _INDEX_AGAIN, "the keyword leg finds less")
    if fields != searched:
        pairs = (", ".join(f"{name} {weight:g}" for name, weight in each.items()) for each in (fields, searched))
        what = "the keyword leg searches {}, and the configuration has {}".format(*pairs)
        yield Gap(need, Severity.PARTIAL, what, _INDEX_AGAIN)
    made, configured = ((noted or wanted).model_dump(), wanted.model_dump())
    for name in (each for each in configured if made[each] != configured[each]):
        what = f"{name} {_word(made[name])}, and the configuration has {_word(configured[name])}"
        yield Gap(need, Severity.PARTIAL, what, _INDEX_AGAIN, "the keyword leg analyses texts as the index was made")


def _compare_index(need: Requirement, info: CollectionInfo, found: Surveyed) -> Iterator[Gap]:
    field = need.name
    # Without an index a filter is slow, and an order is refused; strict mode refuses the filter, too.
    refused = info.strict.get("unindexed_filtering_retrieve") is False
    if field not in info.indexes:
        why = "strict mode refuses filters by them" if refused else "filters by them are slow, and orders are refused"
        loss, effect = Severity.ERROR if refused else Severity.PARTIAL, f"fields without an index, so that {why}"
        what, cure = f"{field} ({format_schema(need.wanted)})", "Run rankstream collections --add-indexes."
        yield Gap(need._replace(kind="missing index"), loss, what, cure, effect)
        return
    for severity, what in _differences(field, need.wanted, parse_schema(info.indexes[field])):
        stops = severity > Severity.SLIGHT
        loss = severity if found.owner is not None or refused else Severity.SLIGHT
        yield Gap(need, loss, what, _SPARE if found.owner is None else _remake(found.name, need), stops=stops)


def _remake(collection: str, need: Requirement) -> str:
    path = f"/collections/{quote(collection, safe='')}/index/{quote(need.name, safe='')}"
    request = f"elete it (DELETE {path}), then run rankstream collections --add-indexes."
    if need.kind == "configured index":
        return f"Correct qdrant.indexes, or make the index again: d{request}"
    return f"D{request}"


def _differences(field: str, wanted: Schema, there: Schema) -> Iterator[tuple[Severity, str]]:
    kind, index = wanted["type"], f"the index of {field}"
    if there["type"] != kind:
        yield Severity.ERROR, f"{index} is of type {there['type']}, and should be {kind}"
        return
    for name, default in _OPTIONS.get(kind, {}).items():
        values = (schema.get(name) for schema in (wanted, there))
        needed, has = (default if value in (None, _NO_STEMMER) else value for value in values)
        if name not in _ABILITIES and (needed or None) != (has or None):
            yield Severity.ERROR, f"{index} has {name} {_word(has)}, and should have {_word(needed)}"
        elif name in _ABILITIES and needed and not has:
            yield Severity.SLIGHT if name in _ONLY_FASTER else Severity.ERROR, f"{index} is without {name}"


def _word(value: object) -> str:
    return "none" if value in (None, {}) else str(value).lower()
