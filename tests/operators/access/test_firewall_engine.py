"""The firewall's conditions against its check, on the embedded Qdrant."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.access.firewall import AccessFilter, access_filter
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from schemas.document import CLASSIFICATION, LABELS, NAMESPACE
from schemas.settings.policies import TIERS, FirewallSettings, SourcePolicy
from tests.operators.clients.qdrant_edge.engine_requests import CREATED, done
from tests.tiers import sized

pytestmark = pytest.mark.slow

DOCUMENTS = 12
COLLECTIONS = ("plain", "indexed")
GUARDED = (NAMESPACE, CLASSIFICATION, LABELS)

NAMES = st.sampled_from(["a", "b", "c", ""])
UNION = st.lists(NAMES, max_size=2)
GUARDS = st.builds(
    access_filter,
    st.builds(FirewallSettings, enabled=st.booleans(), blocked_labels=UNION, required_labels=UNION),
    st.builds(SourcePolicy, clearance=st.sampled_from([None, *TIERS]), blocked_labels=UNION, required_labels=UNION),
    NAMES,
)

WELL_FORMED = st.fixed_dictionaries(
    {NAMESPACE: NAMES},
    optional={
        CLASSIFICATION: st.sampled_from([None, *TIERS, *TIERS, "secret", "Public", ""]),
        LABELS: NAMES | st.lists(NAMES, max_size=4) | st.none(),
    },
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-1, 1) | NAMES | st.sampled_from(TIERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "public"]), inner, max_size=2),
    max_leaves=5,
)
MALFORMED = st.fixed_dictionaries(
    {}, optional={NAMESPACE: NAMES | ANYTHING, CLASSIFICATION: ANYTHING, LABELS: ANYTHING}
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with two collections, one of them with keyword indexes on what the firewall reads."""
    with Engine(tmp_path_factory.mktemp("firewall")) as engine:
        for name in COLLECTIONS:
            done(engine, "PUT", f"/collections/{name}", CREATED)
        for field in sorted(GUARDED):
            done(engine, "PUT", "/collections/indexed/index", {"field_name": field, "field_schema": "keyword"})
        yield engine


def passed(engine: Engine, collection: str, payloads: list[dict[str, Any]], guarding: AccessFilter) -> set[int]:
    """The numbers of the payloads that the guard's conditions let through."""

    async def found() -> set[int]:
        client = EngineClient(engine)
        points = [{"id": index, "vector": {}, "payload": payload} for index, payload in enumerate(payloads)]
        await client.upsert(collection, points, timeout=10)
        page = await client.scroll(collection, {"must": guarding.conditions()}, limit=DOCUMENTS, timeout=10)
        return {int(record.id) for record in page.records}

    return asyncio.run(found())


def permitted(payloads: list[dict[str, Any]], guarding: AccessFilter) -> set[int]:
    """The numbers of the payloads that the guard permits."""
    return {index for index, payload in enumerate(payloads) if guarding.permits(payload)}


@pytest.mark.parametrize("collection", COLLECTIONS)
@settings(max_examples=sized(40, nightly=400))
@given(st.lists(WELL_FORMED, min_size=DOCUMENTS, max_size=DOCUMENTS), GUARDS)
def test_filter_and_check_agree(
    engine: Engine, collection: str, payloads: list[dict[str, Any]], asked: AccessFilter
) -> None:
    """Of well-formed documents the conditions let through exactly those that the check permits."""
    assert passed(engine, collection, payloads, asked) == permitted(payloads, asked)


@pytest.mark.parametrize("collection", COLLECTIONS)
@settings(max_examples=sized(20, nightly=200))
@given(st.lists(MALFORMED, min_size=DOCUMENTS, max_size=DOCUMENTS), GUARDS)
def test_the_filter_hides_nothing_permitted(
    engine: Engine, collection: str, payloads: list[dict[str, Any]], asked: AccessFilter
) -> None:
    """Whatever a payload holds, the conditions let through what the check permits."""
    assert passed(engine, collection, payloads, asked) >= permitted(payloads, asked)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_the_check_removes_what_the_filter_lets_through(engine: Engine, collection: str) -> None:
    """Lists and objects in place of a namespace or a tier get past the conditions, and never past the check."""
    malformed: list[dict[str, Any]] = [
        {NAMESPACE: ["a", "b"]},
        {NAMESPACE: "a", CLASSIFICATION: ["public", "restricted"]},
        {NAMESPACE: "a", CLASSIFICATION: []},
    ]
    fine: list[dict[str, Any]] = [{NAMESPACE: "a"}, {NAMESPACE: "a", CLASSIFICATION: "public"}]
    hidden: list[dict[str, Any]] = [{NAMESPACE: "b"}] * (DOCUMENTS - len(malformed) - len(fine))
    payloads = [*malformed, *fine, *hidden]
    asked = AccessFilter("a", ("public",))
    assert passed(engine, collection, payloads, asked) == {0, 1, 2, 3, 4}
    assert permitted(payloads, asked) == {3, 4}
