"""Publish, for any query and collection: the record is a result event."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.query.outcome import Results
from operators.ranking.candidate import Candidate, Leg
from schemas.errors import InputError, Reason
from schemas.result import KEYWORD, VECTOR, LegStatus
from tests.operators.ranking.pools import keyword, vector
from tests.operators.samples import decoder, message
from tests.operators.stages.test_publish import found, published


@pytest.mark.parametrize(
    "payload",
    [{"id": 7, "text": ["a"]}, {"id": None, "text": None}, {"text": 5, "id": {"a": 1}}, {}, {"id": "", "text": ""}],
)
def test_whatever_a_collection_holds_the_result_keeps_the_contract(payload: dict[str, Any]) -> None:
    """Other tools' points may hold anything as id and text: what is no string stays in the payload."""
    asked = found(count=1)
    asked.outcome.payloads = {"p0": payload}
    (hit,) = published(asked)["results"]
    assert hit["id"] == (payload["id"] if isinstance(payload.get("id"), str) else "p0")
    assert hit["payload"] == {name: value for name, value in payload.items() if not isinstance(value, str)}


INT64 = st.integers(-(2**63), 2**63 - 1)
"""Integers that JSON's readers agree on; larger ones are read as the nearest float."""

fields = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(st.text(max_size=3), INT64 | st.text(max_size=3) | st.none(), max_size=3),
        "now": st.floats(-1e12, 1e12) | st.datetimes().map(lambda moment: moment.isoformat() + "+14:00"),
        "limit": st.integers(0, 300),
        "query_id": st.text(min_size=1, max_size=5),
    },
)
legs = st.sampled_from(
    [
        Leg(VECTOR, LegStatus.OK),
        Leg(KEYWORD, LegStatus.SKIPPED, reason=Reason.NO_TERMS),
        Leg(VECTOR, LegStatus.TIMEOUT, reason=Reason.TIMEOUT),
        vector(("p1", -1e38), ("p2", 0.1)),
        keyword(("p2", 1e38)),
    ]
)
losses = st.tuples(
    st.sampled_from(["embed", "vector", "keyword", "fetch", "rerank", "queue"]), st.sampled_from(list(Reason))
)


@given(fields, st.lists(legs, max_size=2), st.lists(losses, max_size=3), st.booleans(), st.booleans(), st.booleans())
def test_every_result_validates(
    event: dict[str, Any], answered: list[Leg], lost: list[Any], expired: bool, failed: bool, fetched: bool
) -> None:
    """Whatever was asked and whatever became of it, the record's value is a result event."""
    sent = json.dumps({"query_id": "q", "text": "t", **event}).encode()
    try:
        asked = decoder()(message(sent))
    except InputError:
        return
    asked.outcome.legs = {leg.name: leg for leg in answered}
    asked.outcome.results = Results([Candidate(id_, 0.5) for id_ in ("p1", "p2", "p3")])
    asked.outcome.payloads = {id_: {"text": "t", "id": id_} for id_ in ("p1", "p2")} if fetched else {}
    asked.outcome.expired, asked.outcome.failed = expired, failed
    for stage, reason in lost:
        asked.lose(stage, reason)
    assert published(asked)["metadata"] == event.get("metadata")
