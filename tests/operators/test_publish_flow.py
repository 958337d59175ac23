"""Publish in the engine: queries and dead letters in, terminal records out."""

from dataclasses import replace

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main

from operators.inflight import Rejected, Terminal
from operators.publish import Ending, publish, undeliverable
from schemas import dead_letter as names
from schemas.errors import DeadLetterClass
from tests.operators.samples import TRACER, answers, message, origin
from tests.operators.test_publish import PUBLISHER, found


def ending() -> Ending:
    """Ends queries that none follows."""
    return Ending(PUBLISHER, answers(), TRACER)


def test_a_dead_letter_is_a_record_with_its_reason() -> None:
    """A rejected message becomes its dead letter: original bytes, and the class in the headers."""
    rejected = Rejected(message(b"{", 9, headers=(("a", b"b"),)), DeadLetterClass.NOT_JSON, "decode", "why")
    record = undeliverable(rejected, "dead-letters", TRACER)
    assert (record.topic, record.key, record.value, record.origin) == ("dead-letters", b"key", b"{", origin(9))
    assert record.headers[0] == ("a", b"b")
    assert dict(record.headers)[names.CLASS] == b"not_json"
    assert record.timestamp_ms is not None


def test_the_flow_answers_queries_and_dead_letters() -> None:
    """Through the engine: two batches of queries and one of dead letters are as many lists of terminal records."""
    out: list[list[Terminal]] = []
    flow = Dataflow("publish")
    answered = op.input("answered", flow, TestingSource([[found(0), found(1)], [found(2)]]))
    rejected = Rejected(message(b"{", 3), DeadLetterClass.NOT_JSON, "decode", "why")
    dead = op.input("dead", flow, TestingSource([[rejected]]))
    op.output("out", publish("publish", answered, dead, ending()), TestingSink(out))
    run_main(flow)
    assert sorted((record.origin.offset, record.topic) for batch in out for record in batch) == [
        (0, "results"),
        (1, "results"),
        (2, "results"),
        (3, "dead-letters"),
    ]
    assert sorted(map(len, out)) == [1, 1, 2]


def test_a_query_whose_answer_cant_be_written_is_a_dead_letter() -> None:
    """A defect in writing one answer leaves the others, and the message ends all the same, as `internal`."""
    out: list[list[Terminal]] = []
    broken = found(1)
    broken.canonical = replace(broken.canonical, now=float("nan"))
    flow = Dataflow("publish")
    answered = op.input("answered", flow, TestingSource([[found(0), broken, found(2)]]))
    dead = op.input("dead", flow, TestingSource([]))
    op.output("out", publish("publish", answered, dead, ending()), TestingSink(out))
    run_main(flow)
    assert [(record.origin.offset, record.topic) for batch in out for record in batch] == [
        (0, "results"),
        (1, "dead-letters"),
        (2, "results"),
    ]
