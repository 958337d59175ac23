"""Sizes: whatever a result is made of and whatever its topic takes, there is one terminal record that fits."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.query.in_flight import InFlight
from operators.stages.publish import Publisher
from operators.text.passages import SIZE
from operators.wire.message import Headers, Rejected
from schemas import headers as names
from schemas.errors import DeadLetterClass
from tests.operators.samples import decoder, message, way_out
from tests.operators.stages.test_publish import both, event_of, found, written
from tests.operators.stages.test_publish import taking as publishing

BINARY: Headers = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"1" * 100),
    ("ce_source", b"/s"),
    ("ce_type", b"t"),
    ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
)


def taking(size: int) -> Publisher:
    """A publisher whose topics take so many bytes of one record."""
    return publishing(results=size, dead_letters=1_000_000)


def test_a_result_at_the_limit_is_whole() -> None:
    """A record of exactly what its topic takes loses nothing; with a byte less than it needs it loses a payload."""
    size = written(found()).size
    whole, short = (event_of(written(found(), taking(most)))["results"][0] for most in (size, size - 1))
    assert (whole["text"], short["text"]) == ("x" * 10, "x" * 10)
    assert (bool(whole["payload"]), short["payload"]) == (True, {})


def test_an_over_long_result_loses_its_texts_and_says_so() -> None:
    """Over the topic's size the last texts are cut to their best passage, the rest stays, and the answer tells."""
    event = event_of(written(found(count=5, size=2_000), taking(5_000)))
    assert [(hit["id"], len(hit["text"])) for hit in event["results"]] == [
        ("doc-0", 2_000),
        *((f"doc-{n}", SIZE) for n in range(1, 5)),
    ]
    assert all(hit["payload"] for hit in event["results"])
    assert event["status"] == "partial"
    assert event["degraded"] == [{"stage": "result", "reason": "too_large"}]
    said = "texts are cut to their best passage in 4 of 5 results: the topic takes no more"
    assert (event["warnings"], event["has_more"]) == ([said], False)


def test_results_that_do_not_fit_are_left_out_from_the_end() -> None:
    """The first results stay if ids and scores are still too much, as many as fit, and the answer says so."""
    size = written(found(count=20), taking(2_500)).size
    event = event_of(written(found(count=20), taking(2_500)))
    kept = len(event["results"])
    assert 0 < kept < 20
    assert [hit["id"] for hit in event["results"]] == [f"doc-{n}" for n in range(kept)]
    assert event["warnings"] == [
        "payloads are left out in 20 of 20 results: the topic takes no more",
        f"the last {20 - kept} of 20 results are left out: the topic takes no more",
    ]
    assert (event["total"], event["has_more"], event["status"]) == (1, True, "partial")
    assert event["degraded"] == [{"stage": "result", "reason": "too_large"}]
    # One more would have been too many.
    assert size <= 2_500 < size + len('{"id":"doc-9","rank":9,"score":0.5,"text":"","payload":{},"legs":{}},') + 70


@pytest.mark.parametrize("headers", [(), BINARY, (*BINARY, ("content-type", b"application/json"))])
def test_a_key_without_room_for_a_result_is_refused(headers: Headers) -> None:
    """The query's own key can be too much: its caller then hears without it, and a dead letter says for which topic."""
    asked = decoder()(message({"query_id": "q", "text": "t"}, 7, key=b"k" * 3_000, headers=headers))
    record, letter = both(asked, taking(3_000))
    assert (record.topic, record.key, record.origin) == ("results", b"", asked.message.origin)
    why = "the record for results is larger than its topic takes"
    assert event_of(record)["error"] == {"class": "too_large", "field": None, "reason": why}
    assert record.trace is asked.trace
    assert (letter.topic, letter.key, letter.value, letter.origin) == ("dead-letters", b"", None, asked.message.origin)
    assert dict(letter.headers)[names.CLASS] == b"too_large"
    assert dict(letter.headers)[names.MESSAGE] == why.encode()


def test_the_topic_that_the_query_chose_is_the_one_that_counts() -> None:
    """A result is bounded by the topic it goes to."""
    sizes = {"results": 1, "answers": 900_000, "dead_letters": 900_000}
    record = written(found(reply_to="answers"), publishing(**sizes))
    assert (record.topic, event_of(record)["status"]) == ("answers", "ok")
    assert written(found(), publishing(**sizes)).topic == "dead-letters"


def test_a_dead_letter_without_room_keeps_no_payload() -> None:
    """A dead letter at its topic's size is whole; over it, it is one without payload, at once; unknown, it is sent."""
    rejected = Rejected(message(b"x" * 5_000, headers=(("a", b"b"),)), DeadLetterClass.NOT_JSON, "decode", "why")
    (whole,) = way_out().refuse(rejected)
    assert whole.value == b"x" * 5_000
    (same,) = way_out(max_bytes={"dead-letters": whole.size}).refuse(rejected)
    assert same.value == b"x" * 5_000
    (cut,) = way_out(max_bytes={"dead-letters": whole.size - 1}).refuse(rejected)
    assert (cut.value, dict(cut.headers)[names.CLASS], cut.origin) == (None, b"too_large", whole.origin)
    assert cut.trace is not None


def asked_for(event: dict[str, Any], count: int, size: int, key: int | None, headers: Headers) -> InFlight:
    """A query of any size, with results of any size."""
    ready = found(count=count, size=size)
    sent = message({"query_id": "q", "text": "t", **event}, key=None if key is None else b"k" * key, headers=headers)
    asked = decoder()(sent)
    asked.outcome.legs, asked.outcome.results, asked.outcome.payloads = (
        ready.outcome.legs,
        ready.outcome.results,
        ready.outcome.payloads,
    )
    return asked


events = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=300), max_size=3),
        "query_id": st.text(min_size=1, max_size=500),
        "limit": st.integers(0, 200),
    },
)
headers = st.sampled_from([(), BINARY[-1:], BINARY, (("tracestate", b"a=" + b"b" * 200), *BINARY)])


@example({}, 200, 0, 3, (), 3_000)
@given(
    events,
    st.integers(0, 200),
    st.integers(0, 5_000),
    st.none() | st.integers(0, 2_000),
    headers,
    st.integers(1, 20_000) | st.integers(20_000, 1_000_000),
)
def test_every_result_fits_its_topic_or_is_a_dead_letter(
    event: dict[str, Any], count: int, size: int, key: int | None, headers: Headers, limit: int
) -> None:
    """Any result under any limit: what goes to the topic fits, says what it lost, and has the first results; where
    there is no room for any, there is a refusal if that fits, and a dead letter.
    """
    whole = event_of(written(asked_for(event, count, size, key, headers)))
    record, *letters = both(asked_for(event, count, size, key, headers), taking(limit))
    if record.topic == "dead-letters":
        assert record.value is None
        assert limit < 9_000
        return
    assert record.size <= limit
    for letter in letters:
        assert letter.value is None
        assert (event_of(record)["status"], limit < 12_000) == ("invalid", True)
        return
    kept = event_of(record)
    ids = [hit["id"] for hit in whole["results"]]
    assert [hit["id"] for hit in kept["results"]] == ids[: len(kept["results"])]
    lost = kept["results"] != whole["results"]
    assert (kept["degraded"] != []) >= lost
    assert bool(kept["warnings"]) == lost
    assert kept["has_more"] is (whole["has_more"] or len(kept["results"]) < len(ids))
