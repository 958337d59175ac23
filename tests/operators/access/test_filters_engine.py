"""Filters against a plain reading of payloads, on the embedded Qdrant, with and without indexes on their fields."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from functools import cache
from operator import ge, gt, le, lt
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from operators.access.filters import condition, matches_filter
from operators.access.indexes import Indexed, answers
from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.query.field_map import FieldMap
from schemas.fields import unix_seconds
from schemas.filters import AnyFilter, FieldFilter, Filter, Group, Nested
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done
from tests.tiers import sized

pytestmark = pytest.mark.slow

FILTER: TypeAdapter[AnyFilter] = TypeAdapter(Filter)
FIELDS = ("a", "m.a", "m[].a", "v[].m.a")
INDEXED = ("a", "m.a", "m[].a", "v[].a", "v[].m.a", "v[].m[].a")
DOCUMENTS = 8

UUIDS = ["0b9a1cbe-1ad2-4c6e-9c0c-1f5b9d1d7d01", "0B9A1CBE-1AD2-4C6E-9C0C-1F5B9D1D7D01"]
STRINGS = ["", "a", "ab", "b", "B", "1", "true", "\u00e9", "e\u0301", "a.b", "1.0", *UUIDS]
DATES = [
    "2026-01-01T00:00:00Z",
    "2026-01-01t00:00:00z",
    "2026-01-01T01:00:00+02:00",
    "2026-01-01T00:00:00.000001Z",
    "0999-07-01T00:00:00Z",
]
LEAP = ["2025-12-31T23:59:60Z"]
"""The same moment as the first, by a datetime index."""

NAIVE = ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00"]
"""One moment, which Qdrant reads in UTC."""

INTEGERS = [0, 1, 2, -1, 10**6, 2**53 - 1, 1 - 2**53]
FLOATS = [0.0, -0.0, 1.0, 2.0, 0.5, 1.5, -0.5, 1e300, 2.0**53]
BEYOND = [2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2.0**62]

EVERY = {"exists", "is_empty", "is_null", "prefix"}
KINDS: dict[str | None, set[str]] = {
    None: {"eq", "any_of", "none_of", "range", "date_range", *EVERY},
    "keyword": {"eq", "any_of", "none_of", "range", "date_range", *EVERY},
    "bool": {"eq", "any_of", "none_of", "range", "date_range", *EVERY},
    "float": {"eq", "any_of", "none_of", "range", *EVERY},
    "integer": {"eq", "any_of", "none_of", "range", *EVERY},
    "datetime": {"any_of", "none_of", "date_range", *EVERY},
}
"""By index: the ops that suit its kind."""


def numbers(kind: str | None) -> list[Any]:
    """Numbers that an index of this kind holds as they are."""
    whole = [each for each in BEYOND if isinstance(each, int)]
    return INTEGERS + whole if kind == "integer" else INTEGERS + FLOATS + BEYOND


def payloads(kind: str | None) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads with scalars, arrays, objects and nothing under the two fields, for an index of this kind."""
    dates = [*DATES, *NAIVE, *(LEAP if kind == "datetime" else ())]
    scalars = st.sampled_from([None, True, False, *STRINGS, *dates, *numbers(kind)])
    odd = st.sampled_from([[], {}, [[1], ["a"]], {"a": 1}, [{"a": "a"}], [None], {"b": 1}])
    values = scalars | st.lists(scalars, max_size=3) | odd
    nested = st.fixed_dictionaries({}, optional={"a": values}) | st.lists(
        st.fixed_dictionaries({"a": values}), max_size=2
    )
    objects = st.lists(st.fixed_dictionaries({}, optional={"a": values, "m": nested}) | scalars, max_size=3)
    return st.fixed_dictionaries({}, optional={"a": values, "m": nested | values, "v": objects | nested})


def filters(kind: str | None) -> st.SearchStrategy[AnyFilter]:
    """Filters that suit an index of this kind."""
    found = numbers(kind)
    # An index of times has numbers as times.
    listed = [each for each in found if isinstance(each, int) and kind != "datetime"]
    discrete = st.sampled_from([True, False, *STRINGS, *DATES, *listed])
    some = st.lists(discrete, min_size=1, max_size=4) | st.lists(discrete, min_size=20, max_size=20)
    bounds = st.sampled_from([("gt",), ("gte",), ("lt",), ("lte",), ("gt", "lt"), ("gte", "lte"), ("gt", "lte")])
    # An index of integers compares them with a double beyond 2^53 exactly.
    limits = st.sampled_from([*numbers("integer"), *(each for each in FLOATS if kind != "integer" or each < 2**53)])
    times = st.sampled_from([*DATES, 0, 1767225600.000001, 1767225599.5])
    values: dict[str, st.SearchStrategy[Any]] = {
        "eq": discrete | st.sampled_from(found),
        "any_of": some,
        "none_of": some,
        "range": bounds.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, limits))),
        "date_range": bounds.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, times))),
        **dict.fromkeys(("exists", "is_empty", "is_null"), st.booleans()),
        "prefix": st.sampled_from(["a", "ab", "1", "\u00e9", "e\u0301", "2026-01", "B"]),
    }
    bodies = [
        st.fixed_dictionaries({"field": st.sampled_from(FIELDS), "op": st.just(op), "value": values[op]})
        for op in sorted(KINDS[kind])
    ]
    return st.recursive(st.one_of(bodies), combine, max_leaves=4).map(FILTER.validate_python)


def combine(within: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Groups of filters, and objects of arrays that pass them."""
    several = st.lists(within, min_size=1, max_size=3)
    groups = [st.fixed_dictionaries({kind: several}) for kind in ("any_of", "all_of", "none_of")]
    nested = {"field": st.sampled_from(["v", "m"]), "op": st.just("nested"), "value": several}
    return st.one_of(*groups, st.fixed_dictionaries(nested))


def holds(wanted: AnyFilter, payload: dict[str, Any]) -> bool:
    """True if the payload passes the filter, read plainly."""
    match wanted:
        case Group(kind="any_of", filters=filters):
            return any(holds(each, payload) for each in filters)
        case Group(kind="all_of", filters=filters):
            return all(holds(each, payload) for each in filters)
        case Group(filters=filters):
            return not any(holds(each, payload) for each in filters)
        case Nested(field=field, value=filters):
            array = payload.get(field)
            objects = [each for each in array if isinstance(each, dict)] if isinstance(array, list) else []
            return any(all(holds(each, one) for each in filters) for one in objects)
    return holds_of_field(wanted, payload)


def reach(value: Any, names: list[str], spare: int = 1) -> list[Any]:
    """The values at a path: through the lists that have brackets, and through one more."""
    if not names:
        return [value]
    name, *rest = names
    if not isinstance(value, dict) or name.removesuffix("[]") not in value:
        return []
    inner = value[name.removesuffix("[]")]
    objects = inner if isinstance(inner, list) else []
    if name.endswith("[]"):
        return [each for one in objects for each in reach(one, rest, spare)]
    through = objects if rest and spare else []
    return reach(inner, rest, spare) + [each for one in through for each in reach(one, rest, spare - 1)]


def holds_of_field(wanted: FieldFilter, payload: dict[str, Any]) -> bool:
    """True if the field's own value passes the filter."""
    values = reach(payload, wanted.field.split("."))
    elements = [each for value in values for each in (value if isinstance(value, list) else [value])]
    match wanted.op:
        case "exists" | "is_empty":
            return any(value not in (None, []) for value in values) == (wanted.value == (wanted.op == "exists"))
        case "is_null":
            return any(each is None for each in elements) == wanted.value
        case "none_of":
            return not any(equal(each, one) for each in elements for one in wanted.value)
        case "any_of":
            return any(equal(each, one) for each in elements for one in wanted.value)
        case "eq":
            return any(equal(each, wanted.value) for each in elements)
        case "prefix":
            starts = tuple(normalize(form, wanted.value) for form in ("NFC", "NFD"))
            return any(isinstance(each, str) and each.startswith(starts) for each in elements)
        case "range":
            return any(number(each) and admits(each, wanted.value.given) for each in elements)
        case "date_range":
            bounds = {name: microseconds(bound) for name, bound in wanted.value.given.items()}
            dates = [DATES[0] if each in NAIVE else each for each in elements if each in DATES + NAIVE + LEAP]
            return any(within(microseconds(unix_seconds(each)), bounds) for each in dates)
    raise AssertionError(f"{wanted.op} is read elsewhere")


def number(value: object) -> bool:
    """True if this is a number, which a boolean isn't."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(value: Any, wanted: Any) -> bool:
    """True if this is the value: numbers as doubles, but integers that doubles can't tell apart as integers."""
    if isinstance(wanted, str) and isinstance(value, str):
        same = wanted in UUIDS and value in UUIDS
        return same or normalize("NFC", value) == normalize("NFC", wanted)
    if not number(wanted) or (isinstance(wanted, int) and abs(wanted) >= 2**53):
        return type(value) is type(wanted) and bool(value == wanted)
    return number(value) and float(value) == float(wanted)


def admits(value: Any, bounds: dict[str, Any]) -> bool:
    """True if the value is within all bounds: each is an integer that is compared exactly, or a double."""
    for name, bound in bounds.items():
        if isinstance(bound, float):
            if not within(float(value), {name: bound}):
                return False
        elif not all(CHECKS[name](each, bound) for each in ([value] if isinstance(value, int) else ends(value))):
            return False
    return True


@cache
def ends(double: float) -> list[int]:
    """The least and the greatest integer that round to a double."""
    around = range(int(double) - 1024, int(double) + 1025) if double.is_integer() else ()
    same = [each for each in around if float(each) == double] or [int(double), int(double) + 1]
    return [same[0], same[-1]]


CHECKS: dict[str, Any] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}


def within(value: float, bounds: dict[str, float]) -> bool:
    """True if the value is within all bounds."""
    return all(CHECKS[name](value, bound) for name, bound in bounds.items())


def microseconds(seconds: float) -> float:
    """Whole microseconds of a time, exactly."""
    return float((datetime.fromtimestamp(seconds, UTC) - datetime.fromtimestamp(0, UTC)).total_seconds())


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with one collection for each kind of index, named after it."""
    with Engine(tmp_path_factory.mktemp("filters")) as engine:
        for kind in KINDS:
            done(engine, "PUT", f"/collections/{kind}", CREATED)
            for name in INDEXED if kind else ():
                done(engine, "PUT", f"/collections/{kind}/index", {"field_name": name, "field_schema": kind})
        yield engine


async def found(
    client: QdrantClient, collection: str, documents: list[dict[str, Any]], wanted: Any, indexed: Indexed | None = None
) -> list[set[int]]:
    """The numbers of the documents that each list of filters lets through, written for these indexes."""
    points = [{"id": index, "vector": {}, "payload": payload} for index, payload in enumerate(documents)]
    await client.upsert(collection, points, timeout=10)
    sets = []
    for several in wanted:
        where = {"must": [condition(each, indexed or {}) for each in several]}
        page = await client.scroll(collection, where, limit=DOCUMENTS, fields=False, timeout=10)
        sets.append({int(record.id) for record in page.records})
    return sets


def agrees(connect: Callable[[], QdrantClient], kind: str | None, data: st.DataObject) -> None:
    """Assert that a Qdrant, the check of a record and a plain reading find the same, of random payloads and filters."""
    documents = data.draw(st.lists(payloads(kind), min_size=DOCUMENTS, max_size=DOCUMENTS))
    wanted = data.draw(st.lists(st.lists(filters(kind), min_size=1, max_size=2), min_size=6, max_size=6))
    known = data.draw(st.booleans())
    indexed = dict.fromkeys(INDEXED, answers({"data_type": kind})) if kind and known else {}

    async def ask() -> list[set[int]]:
        async with aclosing(connect()) as client:
            return await found(client, str(kind), documents, wanted, indexed)

    sets = asyncio.run(ask())
    for several, numbers_found in zip(wanted, sets, strict=True):
        expected = {index for index, payload in enumerate(documents) if all(holds(each, payload) for each in several)}
        assert numbers_found == expected, several
        checked = {
            index for index, payload in enumerate(documents) if all(matches_filter(each, payload) for each in several)
        }
        assert checked == expected, several


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=sized(10, nightly=100))
@given(data=st.data())
def test_a_filter_finds_what_a_plain_reading_finds(engine: Engine, kind: str | None, data: st.DataObject) -> None:
    """The engine finds the documents that pass when read one by one, and no others; so does the check of a record."""
    agrees(lambda: EngineClient(engine), kind, data)


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("eq", 1, {0, 1, 3}),
        ("eq", 1.0, {0, 1, 3}),
        ("eq", True, {2}),
        ("eq", 2**53, {4}),
        ("eq", 2**53 + 1, {5}),
        ("eq", 2.0**53, {4, 5, 6}),
        ("any_of", [1, True, False], {0, 1, 2, 3}),
        ("none_of", [1, True, False], {4, 5, 6, 7}),
        ("range", {"gte": 2**53 + 1}, {5}),
        ("range", {"gt": 1, "lt": 2**53 + 1}, {4}),
    ],
)
def test_numbers_and_booleans_are_told_apart(engine: Engine, op: str, value: Any, expected: set[int]) -> None:
    """1 is 1.0 and isn't true, in lists, too; integers beyond doubles are exact among themselves."""
    values = [1, 1.0, True, [0, 1], 2**53, 2**53 + 1, 2.0**53, None]
    wanted = FILTER.validate_python({"field": "a", "op": op, "value": value})
    documents = [{"a": each} for each in values]
    assert asyncio.run(found(EngineClient(engine), "None", documents, [[wanted]])) == [expected]


def test_one_object_passes_all_filters_of_a_nested_one(engine: Engine) -> None:
    """Values of two objects pass none of them; neither does an object that is in no array; groups stand inside."""
    red, large = ({"field": name, "op": "eq", "value": value} for name, value in (("a", "red"), ("b", 2)))
    documents: list[dict[str, Any]] = [
        {"v": [{"a": "red", "b": 1}, {"a": "blue", "b": 2}]},
        {"v": [{"a": "blue"}, {"a": "red", "b": 2}]},
        {"v": {"a": "red", "b": 2}},
        {"v": ["red"]},
        {},
    ]
    expected: list[tuple[Any, set[int]]] = [
        ([red, large], {1}),
        ([red], {0, 1}),
        ([{"any_of": [red, large]}], {0, 1}),
        ([{"none_of": [red]}], {0, 1}),
        ([{"none_of": [{"none_of": [red]}]}, large], {1}),
    ]
    for value, numbers_found in expected:
        nested = {"field": "v", "op": "nested", "value": value}
        wanted = FILTER.validate_python(nested), FILTER.validate_python({"none_of": [nested]})
        sets = asyncio.run(found(EngineClient(engine), "None", documents, [[each] for each in wanted]))
        assert [each & {*range(5)} for each in sets] == [numbers_found, {*range(5)} - numbers_found]


def test_a_condition_that_holds_for_all_may_stand_in_a_group(engine: Engine) -> None:
    """As where all documents are in one namespace: a filter on it holds for all of them, or for none."""
    mapped = FieldMap(namespace="acme")
    a, other = ({"field": "namespace", "op": "eq", "value": value} for value in ("acme", "b"))
    one = {"field": "a", "op": "eq", "value": 1}
    client = EngineClient(engine)

    async def numbers_of(wanted: Any) -> set[int]:
        where = mapped.filter({"must": [condition(FILTER.validate_python(wanted))]})
        page = await client.scroll("bool", where, limit=DOCUMENTS, fields=False, timeout=10)
        return {int(record.id) for record in page.records}

    asyncio.run(found(client, "bool", [{"a": index} for index in range(DOCUMENTS)], []))
    everything = {*range(DOCUMENTS)}
    for wanted, expected in [
        ({"any_of": [a, one]}, everything),
        ({"any_of": [other, one]}, {1}),
        ({"none_of": [other, one]}, everything - {1}),
        ({"none_of": [a, one]}, set()),
        ({"all_of": [a, {"none_of": [other]}]}, everything),
    ]:
        assert asyncio.run(numbers_of(wanted)) == expected, wanted


MOMENTS = [datetime(year, 1, 2, 3, 4, 5, tzinfo=UTC) for year in (1950, 1969, 1971, 1999, 2024, 2999)]
FORMS: dict[str, Any] = {
    "text": lambda moment: moment.isoformat(),
    "seconds": lambda moment: int(moment.timestamp()),
    "fractions": lambda moment: float(moment.timestamp()),
    "milliseconds": lambda moment: int(moment.timestamp()) * 1000,
}
FITTING = {None: {*FORMS}, "keyword": {*FORMS}, "datetime": {"text"}, "float": {*FORMS} - {"text"}}
FITTING["integer"] = {"seconds", "milliseconds"}


@pytest.mark.parametrize(("kind", "form"), [(kind, form) for kind, forms in FITTING.items() for form in sorted(forms)])
def test_times_of_another_tool_are_found_in_every_form(engine: Engine, kind: str | None, form: str) -> None:
    """Each range finds those that are in it, as text, seconds or milliseconds, by an index and without one."""
    kinds = {} if kind is None else {"a": kind}
    mapped = FieldMap({"created_at": "a"}, kinds=kinds)
    client = EngineClient(engine)
    read = [mapped.payload("p", {"a": FORMS[form](moment)})["created_at"] for moment in MOMENTS]
    # Milliseconds of some years around 1970 are taken for seconds, in results as in filters.
    moments = [unix_seconds(each) for each in read]
    documents = [{"a": FORMS[form](moment)} for moment in MOMENTS]
    asyncio.run(found(client, str(kind), documents, []))

    async def numbers_of(bounds: dict[str, Any]) -> set[int]:
        wanted = FILTER.validate_python({"field": "created_at", "op": "date_range", "value": bounds})
        page = await client.scroll(
            str(kind), mapped.filter({"must": [condition(wanted)]}), limit=DOCUMENTS, fields=False, timeout=10
        )
        return {int(record.id) for record in page.records} & {*range(len(MOMENTS))}

    for edge in moments:
        for name in ("gt", "gte", "lt", "lte"):
            expected = {index for index, each in enumerate(moments) if within(each, {name: edge})}
            assert asyncio.run(numbers_of({name: edge})) == expected, (name, edge)
    least, most = sorted(moments)[1], sorted(moments)[-2]
    expected = {index for index, each in enumerate(moments) if least <= each < most}
    assert asyncio.run(numbers_of({"gte": least, "lt": most})) == expected
    assert asyncio.run(numbers_of({"gte": most, "lt": least})) == set()
