"""Facets, totals, and why nothing was found, through both flows: over HTTP and with the engine in the process. The
judge is a plain reading of the documents.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import pytest

from bench.kafka.broker import Broker
from schemas.geo import Coordinates
from tests.integration.cascade import AskTogether, over
from tests.integration.permitted import TIERS

pytestmark = pytest.mark.slow

Json = dict[str, Any]

NAMESPACES: Final = ("north", "south")
WORDS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord")
BRANDS: Final = ("Sony", "sonos", "Bose", "Åkesson", "JBL")
SECTIONS: Final[Json] = {
    "embedder": {"kind": "none"},
    "rerank": {"kind": "none"},
    "cache": {"watermark_timeout": 10.0},
    "limits": {"timeout": 60},
    "firewall": {"enabled": True},
    "policies": {
        "sources": {"clerk": {"clearance": "internal"}, "guest": {"hidden_fields": ["price"]}},
    },
}
INDEXES: Final = {
    "brand": "keyword",
    "sizes": "integer",
    "price": "float",
    "new": "bool",
    "sold_at": "datetime",
    "variants[].size": "keyword",
    "spot": "geo",
}
QDRANT: Final[Json] = {"dimension": 4, "indexes": INDEXES, "timeout": 50}


def corpus() -> list[Json]:
    """Articles with a brand or none, several sizes, a price and a day; what only the clerk may see has own values."""
    draw = random.Random(68)
    documents = []
    for number in range(600):
        tier = draw.choice(TIERS[:2])
        document = {
            "id": f"d{number}",
            "namespace": draw.choice(NAMESPACES),
            "text": f"{' '.join(draw.choices(WORDS, k=2))} {number}",
            "vector": [round(draw.gauss(0, 1), 4) for _ in range(4)],
            "classification": tier,
            "brand": draw.choice(BRANDS) if tier == TIERS[0] else f"secret {draw.choice(BRANDS)}",
            "sizes": draw.sample(range(36, 46), draw.randrange(4)),
            "price": round(draw.uniform(1, 100), 2),
            "new": draw.random() < 0.3,
            "sold_at": f"2026-{draw.randrange(1, 13):02d}-15T12:00:00Z",
            "spot": {"lat": draw.uniform(-80, 80), "lon": draw.uniform(-180, 180)},
            "variants": [{"size": size} for size in draw.sample("SML", draw.randrange(3))],
        }
        documents.append({name: value for name, value in document.items() if name != "brand" or draw.random() < 0.9})
    return documents


CORPUS: Final = corpus()


@pytest.fixture(scope="module", params=["server", "engine"])
def ask(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskTogether]:
    """Ask queries together, and get their results in their order."""
    directory = tmp_path_factory.mktemp(request.param)
    broker: Broker | None = request.getfixturevalue("broker") if request.param == "server" else None
    with over(broker, directory, {**SECTIONS, "qdrant": QDRANT}, CORPUS, NAMESPACES[0]) as together:
        yield together


def values_of(document: Json, name: str) -> list[Any]:
    """The values of a field, which may be one of the objects in a list, with brackets or without."""
    if name.startswith("variants"):
        return [each["size"] for each in document["variants"]]
    value = document.get(name, [])
    return value if isinstance(value, list) else [value]


def passes(document: Json, wanted: Json) -> bool:
    """True if a document passes a filter."""
    values = values_of(document, wanted["field"])
    match wanted["op"]:
        case "eq":
            return wanted["value"] in values
        case "any_of":
            return not set(values).isdisjoint(wanted["value"])
        case "range":
            return any(within(each, wanted["value"]) for each in values)
    raise AssertionError(wanted)


def within(value: Any, bounds: Mapping[str, Any]) -> bool:
    """True if a number or a time is within bounds."""
    number = datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value
    limits = {
        name: datetime.fromisoformat(bound).timestamp() if isinstance(bound, str) else bound
        for name, bound in bounds.items()
    }
    above = number >= limits.get("gte", number) and number > limits.get("gt", number - 1)
    return above and number <= limits.get("lte", number) and number < limits.get("lt", number + 1)


def matching(event: Json, left_out: Collection[str] = ()) -> list[Json]:
    """The documents that a query matches, without its filters on these fields."""
    tiers = TIERS[:2] if event.get("source") == "clerk" else TIERS[:1]
    words = set(event.get("text", "").split())
    return [
        each
        for each in CORPUS
        if each["namespace"] == event.get("namespace", NAMESPACES[0])
        and each["classification"] in tiers
        and (not words or words.intersection(each["text"].split()))
        and all(passes(each, wanted) for wanted in event.get("filters", ()) if wanted["field"] not in left_out)
    ]


def counts(event: Json, facet: Json) -> Json:
    """The counts of a facet, as a result has them."""
    name = facet["field"]
    documents = matching(event, {name, name.replace("[]", "")} if facet.get("exclude_own", True) else ())
    if "ranges" in facet:
        wanted = [{"field": name, "op": "range", "value": bounds} for bounds in facet["ranges"]]
        numbers = [sum(passes(each, within_it) for each in documents) for within_it in wanted]
        shown = [
            {"bounds": {key: utc(bound) for key, bound in bounds.items()}, "count": number}
            for bounds, number in zip(facet["ranges"], numbers, strict=True)
        ]
        return {"field": name, "ranges": shown, "more": False, "exact": True}
    found: Counter[Any] = Counter()
    for each in documents:
        found.update(values_of(each, name))
    start = facet.get("prefix", "").casefold()
    values = [(value, number) for value, number in found.items() if not start or value.casefold().startswith(start)]
    values.sort(key=lambda each: (-each[1], each[0]) if facet.get("order", "count") == "count" else (0, each[0]))
    limit = facet.get("limit", 10)
    listed = [{"value": value, "count": number} for value, number in values[:limit]]
    return {"field": name, "values": listed, "more": len(values) > limit, "exact": True}


def utc(bound: Any) -> Any:
    """A time as a result has it."""
    return f"{bound.removesuffix('Z')}.000Z" if isinstance(bound, str) else bound


def facet(draw: random.Random) -> Json:
    """A facet of any kind."""
    wanted: Json = {
        "field": draw.choice([name for name in INDEXES if name != "spot"]),
        "exclude_own": draw.random() < 0.7,
    }
    if wanted["field"] == "price" or (wanted["field"] == "sizes" and draw.random() < 0.3):
        return {**wanted, "ranges": [{"lt": 38}, {"gte": 38, "lt": 42}, {"gt": 41, "lte": 80}]}
    if wanted["field"] == "sold_at":
        return {**wanted, "ranges": [{"lt": "2026-04-01T00:00:00Z"}, {"gte": "2026-04-01T00:00:00Z"}]}
    wanted |= {"limit": draw.randrange(1, 12), "order": draw.choice(["count", "value"])}
    return (
        {**wanted, "prefix": draw.choice(["s", "SO", "b"])}
        if draw.random() < 0.3 and wanted["field"] == "brand"
        else wanted
    )


def condition(draw: random.Random) -> Json:
    """A filter."""
    return draw.choice(
        [
            {"field": "brand", "op": "any_of", "value": draw.sample(BRANDS, 2)},
            {"field": "sizes", "op": "eq", "value": draw.randrange(36, 46)},
            {"field": "price", "op": "range", "value": {"lt": draw.randrange(10, 100)}},
            {"field": "new", "op": "eq", "value": draw.random() < 0.5},
            {"field": draw.choice(["variants.size", "variants[].size"]), "op": "eq", "value": draw.choice("SML")},
        ]
    )


def query(draw: random.Random) -> Json:
    """A query with facets: by words, by filters, by both, or by neither."""
    event: Json = {"facets": [facet(draw) for _ in range(draw.randrange(1, 4))], "limit": 3}
    if draw.random() < 0.6:
        event |= {"text": " ".join(draw.sample(WORDS, draw.randrange(1, 3))), "recipe": "keyword"}
    if draw.random() < 0.6:
        event["filters"] = [condition(draw) for _ in range(draw.randrange(1, 3))]
    return {**event, "source": draw.choice(["anyone", "clerk"]), "namespace": draw.choice(NAMESPACES)}


def test_counts_are_those_of_a_plain_reading(ask: AskTogether) -> None:
    """500 queries: the facets, and the total of all that matches; nothing that the source may not see is counted."""
    draw = random.Random(5)
    events = [query(draw) for _ in range(500)]
    # By fifties: on a busy machine a server would not answer all of them in time.
    results = [result for at in range(0, len(events), 50) for result in ask(events[at : at + 50])]
    for event, result in zip(events, results, strict=True):
        assert (result["status"], result["legs"][-1]["name"], result["legs"][-1]["status"]) == ("ok", "facets", "ok")
        assert [dict(each) for each in result["facets"]] == [counts(event, each) for each in event["facets"]], event
        assert (result["total"], result["total_relation"]) == (len(matching(event)), "eq")
        values = [str(each["value"]) for shown in result["facets"] for each in shown.get("values", ())]
        assert event["source"] == "clerk" or not [each for each in values if each.startswith("secret")]


def test_a_total_counts_what_matches(ask: AskTogether) -> None:
    """Words count in a search, everything in a search by a vector is near, and [] asks for the exact total alone."""
    text, near = {"text": "amber", "limit": 5}, {"vector": [1.0, 0.0, 0.0, 0.0], "limit": 5}
    by_words, both, alone, lookup = ask(
        [
            text,
            {**text, **near},
            near,
            {"facets": [], "filters": [{"field": "new", "op": "eq", "value": True}], "limit": 5},
        ]
    )
    number = len(matching(text))
    assert (by_words["total"], by_words["total_relation"]) == (number, "eq")
    assert (both["total"], both["total_relation"]) == (number, "eq")
    assert alone["total_relation"] == "nearest"
    assert (lookup["total"], lookup["total_relation"], lookup["facets"]) == (
        len(matching({"filters": [{"field": "new", "op": "eq", "value": True}]})),
        "eq",
        [],
    )


NOTHING: Final[list[tuple[Json, str]]] = [
    ({"namespace": "west"}, "no document that the query may see is in the namespace 'west'"),
    (
        {"filters": [{"field": "brnad", "op": "eq", "value": "Sony"}]},
        "no document has the field `brnad` of filters.0; did you mean `brand`?",
    ),
    ({"filters": [{"field": "brand", "op": "eq", "value": "secret Sony"}]}, "no document passes filters.0 (`brand`)"),
    (
        {"filters": [{"field": "brand", "op": "eq", "value": "sony"}]},
        "no document passes filters.0 (`brand`); did you mean 'Sony'?",
    ),
    (
        {"filters": [{"field": "variants.size", "op": "any_of", "value": ["s", "xxl"]}]},
        "no document passes filters.0 (`variants.size`); did you mean 'S'?",
    ),
    (
        # Of the brands that only the clerk may see, nothing is said.
        {"filters": [{"field": "brand", "op": "eq", "value": "secret sony"}]},
        "no document passes filters.0 (`brand`)",
    ),
    (
        {"filters": [{"field": "brand", "op": "eq", "value": 5}]},
        "no document passes filters.0: `brand` is indexed as keyword: the value must be a string",
    ),
    (
        {
            "filters": [
                {
                    "any_of": [
                        {"field": "price", "op": "eq", "value": "50"},
                        {"field": "new", "op": "eq", "value": "yes"},
                    ]
                }
            ]
        },
        "no document passes filters.0: `new` is indexed as bool: the value must be true or false",
    ),
    (
        {"filters": [{"field": "price", "op": "range", "value": {side: 50}} for side in ("lt", "gt")]},
        "no document passes all filters together",
    ),
]


@pytest.mark.parametrize(("event", "said"), NOTHING)
@pytest.mark.parametrize(
    "searched", [{"text": "amber", "recipe": "keyword"}, {"vector": [1.0, 0.0, 0.0, 0.0]}, {"subject": None}]
)
def test_a_query_without_results_says_why(ask: AskTogether, event: Json, said: str, searched: Json) -> None:
    """Whatever it searches by, or if it only looks up."""
    lookup = {"filters": [{"field": "price", "op": "range", "value": {"gt": 0}}]} if "subject" in searched else searched
    [result] = ask([{**lookup, **event}])
    assert (result["status"], result["results"]) == ("ok", [])
    assert [each for each in result["warnings"] if each.removeprefix("no results: ").startswith(said)], result[
        "warnings"
    ]
    assert "'secret" not in str(result["warnings"])


def test_words_that_no_document_has_are_said(ask: AskTogether) -> None:
    """The warning is there if nothing else is searched by; a query with results has none of the kind."""
    nowhere, found = ask([{"text": "zanzibar", "recipe": "keyword"}, {"text": "amber", "recipe": "keyword"}])
    assert [each for each in nowhere["warnings"] if "has a word of its text" in each]
    assert [each for each in found["warnings"] if "no results" in each] == []


def test_a_lookup_lists_the_nearest_first(ask: AskTogether) -> None:
    """In pages, all that match and have a point, which facets and totals count, too; a misspelt field is named."""
    near: Json = {"field": "spot", "lat": 50.0, "lon": 8.0}
    for direction in ("asc", "desc"):
        order = {"geo_distance": near, "direction": direction}
        event: Json = {"filters": [{"field": "new", "op": "eq", "value": True}], "order_by": order, "limit": 30}
        metres: list[float] = []
        cursor: Json = {}
        while True:
            [page] = ask([{**event, **cursor, "facets": []}])
            metres += [hit["distance_m"] for hit in page["results"]]
            assert (page["status"], page["total"]) == ("ok", len(matching(event)))
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        there = Coordinates(near["lat"], near["lon"])
        expected = [there.distance(Coordinates(**each["spot"])) for each in matching(event)]
        assert metres == pytest.approx(sorted(expected, reverse=direction == "desc"))
    [nowhere] = ask([{**event, "order_by": {"geo_distance": {**near, "field": "spott"}}}])
    assert [each for each in nowhere["warnings"] if "the field `spott` of order_by; did you mean `spot`?" in each]


@pytest.mark.parametrize("ask", ["engine"], indirect=True)
@pytest.mark.parametrize(
    ("facets", "field"),
    [
        ([{"field": "color"}], "facets.0.field"),
        ([{"field": "brand"}, {"field": "text"}], "facets.1.field"),
        ([{"field": "brand", "ranges": [{"gte": 1}], "prefix": "a"}], "facets.0"),
    ],
)
def test_a_facet_that_cannot_be_counted_is_refused(ask: AskTogether, facets: list[Json], field: str) -> None:
    """With its place."""
    [result] = ask([{"text": "amber", "facets": facets}])
    assert (result["status"], result["error"]["field"]) == ("invalid", field)


@pytest.mark.parametrize("ask", ["engine"], indirect=True)
def test_a_hidden_field_has_no_facet(ask: AskTogether) -> None:
    """Its counts would tell its values."""
    [result] = ask([{"text": "amber", "source": "guest", "facets": [{"field": "price", "ranges": [{"lt": 5}]}]}])
    assert (result["status"], result["error"]["field"]) == ("invalid", "facets.0.field")


def test_later_pages_need_no_facets(ask: AskTogether) -> None:
    """A cursor leads on with facets or without them."""
    event = {"text": "amber", "limit": 3, "facets": [{"field": "brand"}]}
    [first] = ask([event])
    again, without = ask(
        [{**event, "cursor": first["next_cursor"]}, {"text": "amber", "limit": 3, "cursor": first["next_cursor"]}]
    )
    assert [hit["id"] for hit in again["results"]] == [hit["id"] for hit in without["results"]]
    assert (again["facets"], "facets" in without) == (first["facets"], False)
