"""The findings of `rankstream check` about Qdrant: whether it answers, and whether each collection fits."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from flows.assembly.clients import InProcess
from flows.assembly.collections import survey_collections
from flows.cli.check import Finding, Level
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.collections.analysers import expires, mixed_contexts
from operators.clients.qdrant.collections.generations import generation_of, settings_of
from operators.indexing.inspection import describe, format_schema
from operators.indexing.suitability import BY_KEY, CORRECT, INDEX_AGAIN, UNKEYED, Problem, absent, problems, vectors
from schemas.errors import BackendError, ConfigError, Reason
from schemas.settings import Settings

if TYPE_CHECKING:
    from operators.indexing.survey import Surveyed

_TIMEOUT: Final = 10.0

_OUTAGES: Final = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT})

_ADD: Final = "Run rankstream collections --add-indexes."

_SPARE: Final = (
    "Do not search by this field, or index the documents into a collection that rankstream creates: the other program"
    " may rely on the index."
)

_RAISE: Final = "Raise the limit in the strict mode of the collection"


def qdrant(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about Qdrant and each configured collection."""
    try:
        surveyed = survey_collections(settings, in_process, _TIMEOUT)
    except (ConfigError, TimeoutError) as error:
        remedy = (
            "Correct the section qdrant." if settings.qdrant.url else "Correct qdrant.path, or end what has it open."
        )
        yield Finding("error", "qdrant", str(error) or "no answer in time", remedy)
        return
    yield from findings(settings, surveyed)


def findings(settings: Settings, surveyed: "Sequence[Surveyed]") -> Iterator[Finding]:
    """The findings of a survey."""
    outages = [each.error for each in surveyed if each.error is not None and each.error.reason in _OUTAGES]
    if len(outages) == len(surveyed):
        remedy = "Start Qdrant, or correct qdrant.url and what the network allows."
        yield Finding("error", "qdrant", f"no answer: {outages[0]}", remedy)
        return
    place = settings.qdrant.url or f"the engine on {settings.qdrant.path}"
    yield Finding("ok", "qdrant", f"{place} answers")
    for each in surveyed:
        subject = f"qdrant {each.name}"
        if each.error is not None:
            yield Finding("error", subject, str(each.error), _remedy(each.error))
        elif each.info is None:
            yield _finding(subject, absent(settings.qdrant))
        else:
            yield from _collection(settings, subject, each)


def _collection(settings: Settings, subject: str, surveyed: "Surveyed") -> Iterator[Finding]:
    info = surveyed.info
    assert info is not None
    alias = f", by its alias {surveyed.name}" if surveyed.physical != surveyed.name else ""
    yield Finding("ok", subject, f"the collection {surveyed.physical} is there{alias}, with {info.points} points")
    if surveyed.target is not None:
        what = f"the alias has {surveyed.target}, made with other settings: flows stay with {surveyed.physical}"
        yield Finding("warning", subject, what, "Use the configuration of the new index: docs/how-to/reindexing.md.")
    noted = generation_of(info) is not None
    if noted and surveyed.target is None and settings_of(info) != settings.making_hash(surveyed.name):
        what = "rankstream index does not start: rankstream reindex made the collection with other settings"
        yield Finding("error", subject, what, INDEX_AGAIN)
    yield _owner(subject, surveyed)
    if info.by_key and surveyed.owner is not None:
        yield Finding("error", subject, f"rankstream index does not start: {BY_KEY}", UNKEYED)
    if surveyed.owner is not None and not expires(info):
        level: Level = "warning" if settings.documents.expire_after else "ok"
        what = "documents do not expire: in this collection of an earlier version, expires_at is a field as any other"
        yield Finding(level, subject, what, INDEX_AGAIN if level == "warning" else None)
    yield from _vectors(settings, subject, surveyed)
    yield from _indexes(subject, surveyed)
    if settings.qdrant.vectors.sparse in info.sparse_vectors:
        yield from _shards(subject, info)
    yield from _limits(settings, subject, info)


def _shards(subject: str, info: CollectionInfo) -> Iterator[Finding]:
    if info.shards == 1 and not info.by_key:
        return
    several = "the collection has shards by key" if info.by_key else f"the collection has {info.shards} shards"
    what = f"{several}, and Qdrant counts the rarity of a term in each: keyword scores depend on a document's shard"
    yield Finding(
        "warning", subject, what, "Use one shard where it holds the documents: docs/reference/collections.md."
    )


def _owner(subject: str, surveyed: "Surveyed") -> Finding:
    match surveyed.owner:
        case "metadata":
            return Finding("ok", subject, "the collection is rankstream's own")
        case "configuration":
            return Finding("ok", subject, "the collection is rankstream's own, by qdrant.owned")
    what = "another program created the collection: rankstream only reads it, and rankstream index does not start"
    return Finding("warning", subject, what, "Add it to qdrant.owned if rankstream is to write to it.")


def _vectors(settings: Settings, subject: str, surveyed: "Surveyed") -> Iterator[Finding]:
    info, lack = surveyed.info, surveyed.lack
    assert info is not None
    assert lack is not None
    late_interaction = settings.rerank.kind == "late_interaction"
    mixed = settings.firewall.enabled and mixed_contexts(settings.qdrant.vectors, info)
    needed, purposes = vectors(settings.qdrant), settings.embedder.purposes
    for problem in problems(needed, info, late_interaction=late_interaction, mixed=mixed, purposes=purposes):
        yield _finding(subject, problem)
    refused = [each for each in (*lack.tokens, *lack.context, *lack.learned, *lack.fuzzy) if not each.mild]
    if refused and surveyed.owner is not None:
        yield Finding("error", subject, f"rankstream index does not start: {describe(refused)}", CORRECT)
    if not lack.vectors:
        yield Finding("ok", subject, "the vectors fit the configuration")


def _finding(subject: str, problem: Problem) -> Finding:
    return Finding(problem.level, subject, problem.what, problem.remedy)


def _indexes(subject: str, surveyed: "Surveyed") -> Iterator[Finding]:
    from operators.indexing.collection import remedy

    info, lack = surveyed.info, surveyed.lack
    assert info is not None
    assert lack is not None
    # Without an index a filter is slow, and an order is refused; strict mode refuses the filter, too.
    refused = info.strict.get("unindexed_filtering_retrieve") is False
    if lack.missing:
        fields = ", ".join(f"{field} ({format_schema(schema)})" for field, schema in lack.missing.items())
        why = "strict mode refuses filters by them" if refused else "filters by them are slow, and orders are refused"
        yield Finding(
            "error" if refused else "warning", subject, f"fields without an index, so that {why}: {fields}", _ADD
        )
    for difference in lack.indexes:
        mild = difference.mild or (surveyed.foreign and not refused)
        level: Level = "warning" if mild else "error"
        yield Finding(
            level, subject, difference.what, _SPARE if surveyed.foreign else remedy(surveyed.name, difference)
        )
    if not lack.missing and not lack.indexes:
        yield Finding("ok", subject, "the indexes are there")


def _limits(settings: Settings, subject: str, info: CollectionInfo) -> Iterator[Finding]:
    strict, section = info.strict, settings.qdrant
    deepest = max((profile.over_sample for profile in settings.profiles.values()), default=0)
    most = strict.get("max_query_limit", deepest)
    if most < deepest:
        what = f"strict mode gives a search {most} points at most, and a profile asks for {deepest}: pages end earlier"
        yield Finding("warning", subject, what, f"{_RAISE} (max_query_limit).")
    wide = section.search.hnsw_ef or 0
    if (bound := strict.get("search_max_hnsw_ef", wide)) < wide:
        what = f"strict mode bounds hnsw_ef to {bound}, and qdrant.search.hnsw_ef is {wide}"
        yield Finding(
            "warning", subject, f"{what}: fewer of the nearest documents are found", f"{_RAISE} (search_max_hnsw_ef)."
        )
    if (longest := strict.get("max_timeout", section.timeout)) < section.timeout:
        what = f"strict mode bounds a request to {longest} s, and qdrant.timeout is {section.timeout:g} s"
        yield Finding("warning", subject, what, f"{_RAISE} (max_timeout).")
    for name, asked in (("read_rate_limit", "searches"), ("write_rate_limit", "documents")):
        if (rate := strict.get(name)) is not None:
            what = f"strict mode allows {rate} {asked} a minute: those beyond it wait, or fail when their time is up"
            yield Finding("warning", subject, what, f"{_RAISE} ({name}).")
    if settings.rerank.kind == "late_interaction" and section.vectors.tokens in info.vectors:
        if strict.get("search_allow_exact") is False:
            what = "strict mode forbids exact searches: late interaction fetches the token vectors to compare them"
            yield Finding("warning", subject, what, "Set search_allow_exact to true for less traffic.")
        if settings.rerank.idf and (strict.get("search_allow_exact") is False or "max_query_limit" in strict):
            what = "strict mode forbids to count tokens: late interaction weighs rare and common tokens alike"
            yield Finding(
                "warning", subject, what, "Allow exact searches and any limit, or ignore it: it changes little."
            )


def _remedy(error: BackendError) -> str:
    if error.reason is Reason.UNAUTHORIZED:
        return "Correct qdrant.api_key, or give the key access to this collection by the name in the configuration."
    return "Correct qdrant.url, or see the log of Qdrant."
