"""Publish: one terminal record a query, which always keeps the contract, and one a dead letter."""

from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from operators.delivery.output_record import OutputRecord
from operators.query.in_flight import InFlight
from operators.query.result import status_of
from operators.ranking.fusion import score
from operators.ranking.pipeline import Ranked
from operators.ranking.run import ModelScores
from operators.stages.publish import Publisher
from operators.wire.message import result_id
from schemas.errors import Reason
from schemas.recipes import SHIPPED
from schemas.recipes.fusion import Score
from schemas.result import VERSION, Denial, DenialCode, ResultEvent, Status
from tests.operators.ranking.pools import keyword, run, vector
from tests.operators.samples import CURSORS, origin, query, way_out

SIZES = {"results": 900_000, "answers": 900_000, "dead-letters": 900_000}
PUBLISHER = Publisher(way_out(max_bytes=SIZES), "minilm", CURSORS)

DENIAL = Denial(DenialCode.POLICY_DENIED, "profile 'deep' is not allowed for this source")


def taking(**max_bytes: int) -> Publisher:
    """A publisher whose topics take so many bytes of one record."""
    return replace(PUBLISHER, way_out=way_out(max_bytes={name.replace("_", "-"): n for name, n in max_bytes.items()}))


def event_of(output_record: OutputRecord) -> dict[str, Any]:
    """A result record's event, which must validate."""
    assert output_record.value is not None
    event: dict[str, Any] = orjson.loads(output_record.value)
    ResultEvent.model_validate_json(output_record.value)
    return event


def both(asked: InFlight, publisher: Publisher = PUBLISHER) -> list[OutputRecord]:
    """The records of a query's own answer: its result, its dead letter, or both."""
    answer = publisher.answer(asked)
    own = publisher.own(asked, answer)
    return publisher.way_out.answer(asked, own, partial(publisher.next_cursor, asked, answer))


def written(asked: InFlight, publisher: Publisher = PUBLISHER) -> OutputRecord:
    """The first of these records."""
    return both(asked, publisher)[0]


def published(asked: InFlight) -> dict[str, Any]:
    """The result event of a query."""
    return event_of(written(asked))


def found(offset: int = 0, count: int = 3, size: int = 10, **event: Any) -> InFlight:
    """A query with candidates, fetched."""
    asked = query(offset, **event)
    legs = [vector(*((f"p{n}", 1.0 - n / 100) for n in range(count))), keyword(("p0", 3.5))]
    asked.outcome.legs = {leg.name: leg for leg in legs}
    given = run()
    asked.outcome.rank(Ranked(score(legs, Score(), given), given))
    asked.outcome.payloads = {
        f"p{n}": {"id": f"doc-{n}", "text": "x" * size, "namespace": "public", "_version": 1, "a": [n]}
        for n in range(count)
    }
    return asked


def test_a_result_by_hand() -> None:
    """Every field of an answer with two hits, as the contract writes it."""
    asked = found(count=2, metadata={"user": 1}, now=1_700_000_000)
    event = published(asked)
    assert event.pop("result_id") == result_id(origin(0))
    assert event == {
        "schema_version": 1,
        "query_id": "q0",
        "status": "ok",
        "profile": "balanced",
        "retrieval_stage": "hybrid_merge",
        "results": [
            {
                "id": "doc-0",
                "rank": 1,
                "score": 1.0,
                "text": "x" * 10,
                "payload": {"namespace": "public", "a": [0]},
                "legs": {"vector": {"rank": 0, "score": 1.0}, "keyword": {"rank": 0, "score": 3.5}},
            },
            {
                "id": "doc-1",
                "rank": 2,
                "score": 0.0,
                "text": "x" * 10,
                "payload": {"namespace": "public", "a": [1]},
                "legs": {"vector": {"rank": 1, "score": 0.99}},
            },
        ],
        # One holds a word of the query; the other is near it.
        "total": 1,
        "total_relation": "eq",
        "has_more": False,
        "next_cursor": None,
        "backends_used": ["vector", "keyword"],
        "semantic_unavailable": False,
        "legs": [
            {"name": "vector", "status": "ok", "reason": None, "candidates": 2},
            {"name": "keyword", "status": "ok", "reason": None, "candidates": 1},
        ],
        "degraded": [],
        "warnings": [],
        "removed_by_firewall": 0,
        "provenance": {
            "version": VERSION,
            "config_hash": "0" * 64,
            "recipe": "hybrid",
            "recipe_hash": SHIPPED["hybrid"].hash,
            "models": {"embedder": "minilm", "reranker": None},
            "index_watermark": None,
            "now": "2023-11-14T22:13:20.000Z",
            "source": {"topic": "queries", "partition": 0, "offset": 0},
        },
        "metadata": {"user": 1},
    }


def test_the_record_keeps_the_querys_key_and_place() -> None:
    """The result goes to its topic under the query's key, for the query's offset."""
    record = written(found(7))
    assert (record.topic, record.key, record.origin, record.compacts) == ("results", b"key", origin(7), False)


def test_the_record_goes_to_the_topic_that_the_query_chose() -> None:
    """`reply_to` is the topic of the record, and of the span that sends it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    record = written(query(tracer=provider.get_tracer("test"), reply_to="answers"))
    assert record.topic == "answers"
    assert record.trace is not None
    record.trace.sent()
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert spans["send answers"]["messaging.destination.name"] == "answers"


def test_a_span_names_the_record_that_is_sent_in_the_end() -> None:
    """A result without room is refused, in the trace, too, or else a dead letter; one that lost something says so."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    for size, name, status in (
        (500, "send dead-letters", "dead_letter"),
        (1_000, "send results", "invalid"),
        (2_000, "send results", "partial"),
    ):
        asked = found(size=2_000)
        asked.trace = query(tracer=provider.get_tracer("test")).trace
        record = written(asked, taking(results=size))
        assert record.trace is not None
        record.trace.sent()
        spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
        assert spans.keys() == {"receive queries", "process queries", name}
        assert spans["process queries"]["rankstream.status"] == status
        assert spans[name]["messaging.destination.name"] == name.removeprefix("send ")
        exporter.clear()


@pytest.mark.parametrize(
    ("denial", "ended", "lost", "status"),
    [
        (DENIAL, {"expired": True, "failed": True}, ["vector"], Status.DENIED),
        (None, {"expired": True, "failed": True}, ["vector", "rerank"], Status.EXPIRED),
        (None, {"failed": True}, ["vector", "keyword", "rerank"], Status.FAILED),
        (None, {}, ["rerank", "vector"], Status.PARTIAL),
        (None, {}, ["fetch"], Status.PARTIAL),
        (None, {}, ["embed"], Status.PARTIAL),
        (None, {}, ["result", "rerank"], Status.PARTIAL),
        (None, {}, ["rerank"], Status.UNRANKED),
        (None, {}, [], Status.OK),
    ],
)
def test_the_first_status_that_applies_counts(
    denial: Denial | None, ended: dict[str, Any], lost: list[str], status: Status
) -> None:
    """Denied, expired, failed, partial, unranked, ok: the first counts; `degraded` lists all that was lost."""
    asked = query()
    asked.asked = replace(asked.asked, denial=denial)
    asked.outcome = replace(asked.outcome, **ended)
    for stage in lost:
        asked.lose(stage, Reason.TIMEOUT)
    assert status_of(asked.asked, asked.outcome) is status
    event = published(asked)
    assert event["status"] == status
    assert [part["stage"] for part in event["degraded"]] == lost


@pytest.mark.parametrize(("lost", "unavailable"), [("embed", True), ("vector", True), ("keyword", False)])
def test_semantic_search_is_unavailable_without_embedder_or_vector_leg(lost: str, unavailable: bool) -> None:
    """Only what the vector leg needs makes an answer say that it is missing."""
    asked = query()
    asked.lose(lost, Reason.UNAVAILABLE)
    assert published(asked)["semantic_unavailable"] is unavailable


def test_a_reranker_is_named_only_if_it_took_part() -> None:
    """Provenance names the reranker of a reranked answer; an answer that wasn't has no such field."""
    assert "reranked" not in published(found())
    asked = found()
    asked.outcome.rerank_scores = ModelScores({}, 3, model="cohere")
    asked.outcome.run.reranked = True
    event = published(asked)
    assert event["reranked"] is True
    assert event["provenance"]["models"] == {"embedder": "minilm", "reranker": "cohere"}


def test_the_page_is_the_first_of_the_candidates() -> None:
    """A limit cuts the page, and has_more tells of the rest; of all that is near, one holds a word of the query."""
    event = published(found(count=30, limit=5))
    assert [hit["rank"] for hit in event["results"]] == [1, 2, 3, 4, 5]
    assert (event["total"], event["has_more"]) == (1, True)
    assert published(found(count=5, limit=5))["has_more"] is False


def test_candidates_that_were_not_fetched_are_further_pages() -> None:
    """Behind what was fetched nothing has a text: it is counted, and not shown."""
    asked = found(count=10)
    asked.outcome.payloads = {name: asked.outcome.payloads[name] for name in ("p0", "p1")}
    event = published(asked)
    assert [hit["id"] for hit in event["results"]] == ["doc-0", "doc-1"]
    assert (event["total"], event["has_more"]) == (1, True)


def test_an_importance_off_its_scale_is_logged_once_a_recipe() -> None:
    """One line for each process and recipe, however many queries meet such a document."""
    publisher = replace(PUBLISHER, off_scale=set())
    with capture_logs() as lines:
        for name in ("distance", "composite", "distance", "composite"):
            asked = found(recipe=name)
            asked.outcome.run.off_scale = True
            publisher.answer(asked)
    assert [line["recipe"] for line in lines if "importance" in line["event"]] == ["distance", "composite"]


def test_a_lost_fetch_leaves_ids_and_scores() -> None:
    """Without payloads the page is still there, by point id, and the answer says what is missing."""
    asked = found(count=2)
    asked.outcome.payloads = {}
    asked.lose("fetch", Reason.TIMEOUT)
    event = published(asked)
    assert [(hit["id"], hit["text"], hit["payload"]) for hit in event["results"]] == [
        ("p0", None, {}),
        ("p1", None, {}),
    ]
    assert event["status"] == "partial"


def test_a_result_keeps_its_identity() -> None:
    """The id is a hash of the place alone: the same on re-delivery, and of no other place."""
    assert result_id(origin(5, epoch=1)) == result_id(origin(5, epoch=9)) == "36d5be1f20e304ee30f58f52193ffed5"
    destinations = [origin(0), origin(1), origin(0, partition=1), origin(11, partition=1), origin(1, partition=11)]
    destinations += [origin(0, topic="other")]
    assert len({result_id(place) for place in destinations}) == len(destinations)
