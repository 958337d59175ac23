"""Publish in the engine: queries and dead letters in, terminal records out."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.run import cli_main
from bytewax.testing import TestingSink, TestingSource

from operators.delivery.output_record import OutputRecord
from operators.query.in_flight import InFlight
from operators.runtime.stage import KEY, last_stage
from operators.stages.publish import Finaliser
from operators.wire.message import Rejected, result_id
from schemas import headers as names
from schemas.errors import DeadLetterClass
from tests.operators.samples import answers, message, origin, query, way_out
from tests.operators.stages.test_publish import PUBLISHER, event_of, found


def finaliser() -> Finaliser:
    """Ends queries that none follows."""
    return Finaliser(PUBLISHER, answers())


def published(batches: list[list[InFlight | Rejected]]) -> list[list[OutputRecord]]:
    """The records of batches through the engine."""
    out: list[list[OutputRecord]] = []
    flow = Dataflow("publish")
    up = op.key_on("key", op.input("in", flow, TestingSource(batches)), lambda _: KEY)
    op.output("out", last_stage("publish", up, finaliser()), TestingSink(out))
    cli_main(flow)
    return out


def test_a_dead_letter_is_a_record_with_its_reason() -> None:
    """A rejected message becomes its dead letter: original bytes, and the class in the headers."""
    rejected = Rejected(message(b"{", 9, headers=(("a", b"b"),)), DeadLetterClass.NOT_JSON, "decode", "why")
    (record,) = way_out().refuse(rejected)
    assert (record.topic, record.key, record.value, record.origin) == ("dead-letters", b"key", b"{", origin(9))
    assert record.headers[0] == ("a", b"b")
    assert dict(record.headers)[names.CLASS] == b"not_json"
    assert record.timestamp_ms is not None


def test_a_defect_in_a_refusal_costs_the_refusal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead letter of its message goes all the same, so that the message doesn't come back for ever."""

    def broken(*_: object) -> None:
        raise KeyError("a defect")

    rejected = Rejected(message({"query_id": "q"}), DeadLetterClass.INVALID, "decode", "why")
    for name in ("parse_refused", "refused_result"):
        with monkeypatch.context() as patch:
            patch.setattr(f"operators.delivery.way_out.{name}", broken)
            (letter,) = way_out().refuse(rejected)
        assert (letter.topic, letter.value) == ("dead-letters", rejected.message.value)
    assert len(way_out().refuse(rejected)) == 2


def test_the_flow_answers_queries_and_dead_letters() -> None:
    """Through the engine: each batch that isn't empty is a list of terminal records, in its order."""
    rejected = Rejected(message(b"{", 3), DeadLetterClass.NOT_JSON, "decode", "why")
    out = published([[found(0), rejected, found(1)], [], [found(2)]])
    assert sorted((record.origin.offset, record.topic) for batch in out for record in batch) == [
        (0, "results"),
        (1, "results"),
        (2, "results"),
        (3, "dead-letters"),
    ]
    assert list(map(len, out)) == [3, 1]


def following(leader: InFlight, *offsets: int, **event: Any) -> list[InFlight]:
    """Identical queries that wait for the leader's answer."""
    waiters = [query(offset, **event) for offset in offsets]
    for waiter in waiters:
        waiter.cache.leads = False
    leader.cache.waiters.extend(waiters)
    return waiters


def led(to: Finaliser, offset: int) -> InFlight:
    """A query that is looked up and leads, with candidates."""
    return to.answers.look_up(found(offset), ("0:7",))


def events(records: list[OutputRecord]) -> list[dict[str, Any]]:
    """The events of results."""
    return [event_of(record) for record in records]


def test_who_follows_is_answered_alike() -> None:
    """One answer, with the provenance of the run that computed it; id, metadata and place are each query's own."""
    to = finaliser()
    leader = led(to, 0)
    following(leader, 1, 2, metadata={"m": 1})
    records = to(leader)
    assert [record.origin for record in records] == [origin(0), origin(1), origin(2)]
    answers = events(records)
    assert [each["query_id"] for each in answers] == ["q0", "q1", "q2"]
    assert [each["result_id"] for each in answers] == [result_id(origin(n)) for n in range(3)]
    assert [each["metadata"] for each in answers] == [None, {"m": 1}, {"m": 1}]
    assert [each["provenance"]["source"]["offset"] for each in answers] == [0, 0, 0]
    for each in answers:
        for own in ("query_id", "result_id", "metadata"):
            del each[own]
    assert answers[0] == answers[1] == answers[2]
    assert not to.answers.leading


def test_an_answer_that_cannot_be_kept_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of the caches costs nobody an answer that is there."""
    to = finaliser()
    leader = led(to, 0)
    following(leader, 1)

    def broken(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(to.answers, "put", broken)
    assert [each["status"] for each in events(to(leader))] == ["ok", "ok"]


def test_what_fails_for_one_fails_for_its_followers() -> None:
    """The refusal of a query that led is theirs, too, each with its own id and bytes; nobody waits any longer."""
    to = finaliser()
    leader = led(to, 0)
    (waiter,) = following(leader, 1)
    records = to(Rejected(leader.message, DeadLetterClass.INTERNAL, "fuse", "why", leader.trace))
    refused, letters = records[::2], records[1::2]
    assert [(each["query_id"], each["status"]) for each in events(refused)] == [("q0", "invalid"), ("q1", "invalid")]
    assert [record.trace for record in refused] == [leader.trace, waiter.trace]
    assert [(letter.origin, letter.topic) for letter in letters] == [
        (origin(0), "dead-letters"),
        (origin(1), "dead-letters"),
    ]
    assert [letter.value for letter in letters] == [leader.message.value, query(1).message.value]
    assert not to.answers.leading


def test_a_kept_answer_is_the_next_querys() -> None:
    """A cached answer is served again at the same watermark, and says from where; at another it is computed again."""
    to = finaliser()
    (first,) = events(to(led(to, 0)))
    again = to.answers.look_up(query(1), ("0:7",))
    assert again.answered
    (second,) = events(to(again))
    assert (second["retrieval_stage"], second["query_id"]) == ("exact_cache", "q1")
    assert (second["results"], second["provenance"]) == (first["results"], first["provenance"])
    assert not to.answers.look_up(query(2), ("0:8",)).answered


def test_a_query_whose_answer_cant_be_written_is_refused() -> None:
    """A defect in writing one answer leaves the others, and the message ends all the same, as `internal`."""
    broken = found(1)
    broken.asked = replace(broken.asked, now=float("nan"))
    out = published([[found(0), broken, found(2)]])
    records = [record for batch in out for record in batch]
    assert [(record.origin.offset, record.topic) for record in records] == [
        (0, "results"),
        (1, "results"),
        (1, "dead-letters"),
        (2, "results"),
    ]
    assert orjson.loads(records[1].value or b"")["error"] == {
        "class": "internal",
        "field": None,
        "reason": "ValueError",
    }


def test_each_query_has_its_own_headers_and_its_own_place() -> None:
    """Those that wait for an answer get it with what they sent, where they chose."""
    to = finaliser()
    leader = led(to, 0)
    leader.message = replace(leader.message, headers=(("correlation-id", b"0"),))
    for waiter in following(leader, 1, 2, reply_to="answers"):
        waiter.message = replace(waiter.message, headers=(("correlation-id", b"%d" % waiter.message.origin.offset),))
    places = {record.headers[0]: record.topic for record in to(leader)}
    assert places == {
        ("correlation-id", b"0"): "results",
        ("correlation-id", b"1"): "answers",
        ("correlation-id", b"2"): "answers",
    }
