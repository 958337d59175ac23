"""Columns of the page: one way to rank each, its result as cards, and several results of one query compared."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from flows.cli.console.waterfall import share_score
from flows.cli.evaluate.evaluation import judged_hit
from operators.evaluation.comparison import jaccard, rank_biased_overlap

COLUMNS: Final = 3
DEPTH: Final = 10
"""Results over which two lists are compared."""

_OWN: Final = frozenset({"title", "namespace", "destination"})
_LATE: Final = frozenset({"created_at", "updated_at", "accessed_at", "lang"})
"""Fields that stand behind the others."""

_PARTS: Final = {"passages": 2, "text": 300}
_LONGEST: Final = 600
"""Characters of a text or a field that a card shows at most."""


class Strict(BaseModel):
    """A request of the page, which has these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Column(Strict):
    """One way to rank: a recipe, or the profile's, with overrides, by one of the configurations."""

    config: str = ""
    recipe: str = ""
    profile: str = ""
    overrides: dict[str, JsonValue] = {}
    rerank: bool = True
    min_relevance: float | None = None


class Search(Strict):
    """A search of the page: fields of a query event, which the search flow judges, and the columns."""

    columns: Annotated[list[Column], Field(min_length=1, max_length=COLUMNS)]
    text: Any = None
    namespace: Any = None
    limit: Any = None
    filters: Any = None

    def events(self) -> list[dict[str, Any]]:
        """The query events, one for each column, without their ids."""
        same = {name: each for name, each in self.model_dump(exclude={"columns"}).items() if each is not None}
        asked = {"explain": True, "debug": True, "record": True, "return": dict(_PARTS)}
        return [{**same, **asked, **event_fields(column)} for column in self.columns]


def event_fields(column: Column) -> dict[str, Any]:
    """The fields of a query event that a column says."""
    return column.model_dump(exclude={"config"}, exclude_defaults=True)


def to_cards(result: Mapping[str, Any], grades: Mapping[str, int], known: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Each result as a card; `known` are documents by id, for parts that a pool lacks."""
    return [_card(hit, grades, known.get(hit["id"], {})) for hit in result["results"]]


def _card(hit: Mapping[str, Any], grades: Mapping[str, int], document: Mapping[str, Any]) -> dict[str, Any]:
    payload = {**document.get("payload", {}), **hit["payload"]}
    passages = hit.get("passages") or document.get("passages") or []
    explanation = hit.get("explanation")
    words: dict[str, list[str]] = {}
    for step in explanation["stages"] if explanation else ():
        for word, found in (step["values"].get("words") or {}).items():
            words[word] = list(found.get("fields") or ())
    group, judged = hit.get("group"), judged_hit(hit)
    return {
        "id": hit["id"],
        "judged": judged,
        "rank": hit["rank"],
        "score": hit["score"],
        "relevance": hit.get("relevance"),
        "title": _text(payload.get("title")),
        "passages": [{**each, "text": shorten(each["text"])} for each in passages],
        "text": shorten(hit.get("text") or document.get("text") or ""),
        "fields": {
            name: _text(payload[name])
            for name in sorted(payload, key=_LATE.__contains__)
            if name not in _OWN and payload[name] is not None
        },
        "legs": {name: leg["rank"] + 1 for name, leg in hit["legs"].items()},
        "parts": share_score(explanation) if explanation else [],
        "words": words,
        "grade": grades.get(judged),
        "group": {"key": _text(group["key"]), "count": group["count"]} if group else None,
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return shorten(", ".join(str(_text(each)) for each in value))
    if isinstance(value, Mapping):
        return shorten("; ".join(f"{name}: {_text(each)}" for name, each in value.items()))
    return shorten(str(value))


def shorten(text: str, most: int = _LONGEST) -> str:
    """The text with at most that many characters; an ellipsis stands for the rest."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def to_column(result: Mapping[str, Any], cards: list[Any]) -> dict[str, Any]:
    """A result without its documents, for the head of a column, with its cards."""
    names = ("status", "profile", "degraded", "warnings", "total", "total_relation", "legs", "retrieval_stage")
    return {
        **{name: result.get(name) for name in (*names, "error", "denied")},
        "recipe": result.get("provenance", {}).get("recipe"),
        "reranked": result.get("reranked_candidates"),
        "unscored": result.get("unscored_candidates"),
        "took": (result.get("debug") or {}).get("total_latency_ms"),
        "cache": (result.get("debug") or {}).get("cache_type"),
        "cards": cards,
    }


def compare_columns(lists: Sequence[Sequence[str]], ranked: Sequence[Mapping[str, int]]) -> list[dict[str, Any]]:
    """Each further column compared with the first: overlap, what moved, and what one of both has alone.

    `lists` are the names on each page by which results are judged; `ranked` has the rank of every candidate of each
    column, those behind the page included.
    """
    first = lists[0]
    found = []
    for other, ranks in zip(lists[1:], ranked[1:], strict=True):
        moved = {id_: first.index(id_) - place for place, id_ in enumerate(other) if id_ in first}
        found.append(
            {
                "rbo": rank_biased_overlap(first, other),
                "jaccard": jaccard(first[:DEPTH], other[:DEPTH]),
                "depth": DEPTH,
                "moved": moved,
                "only_first": {id_: ranks.get(id_) for id_ in first if id_ not in other},
                "only_other": {id_: ranked[0].get(id_) for id_ in other if id_ not in first},
            }
        )
    return found
