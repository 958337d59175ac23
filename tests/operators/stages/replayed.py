"""Random queries with random outcomes of their legs, the same in every run, and what each is answered, in 32 bits."""

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from operators.query.backend_answers import Embedding, Hits
from operators.query.in_flight import InFlight
from operators.query.search import Found, Search
from operators.stages.admit import Admission
from operators.stages.publish import Publisher
from schemas.errors import (
    BackendBadResponse,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    DeadlinePassed,
    InputError,
    Reason,
    invalid,
)
from schemas.recipes import SHIPPED
from tests.operators.samples import CURSORS, DIMENSION, admission, capable, decoder, message, searches, way_out

CASES: Final = 2000
NOW: Final = 1_700_000_000.0
SEARCHES: Final = searches()
PUBLISHER: Final = Publisher(way_out(), "minilm", CURSORS)

_TEXTS: Final = (
    "parse a date",
    "the",
    '"deep learning" model',
    "red*",
    '"deep lea"*',
    "rust OR python",
    "yesterday's run",
)
_ERRORS: Final[tuple[Callable[[str], BackendError], ...]] = (
    BackendTimeout,
    DeadlinePassed,
    BackendUnavailable,
    BackendBadResponse,
)

Outcomes = Mapping[str, Found | BackendError]
"""The hits of each leg that is asked."""


class Case(NamedTuple):
    """A query behind the semantic lookup, what its legs are asked, and what they give."""

    query: InFlight
    asked: Mapping[str, Search]
    outcomes: Outcomes


class Told:
    """A trace that notes what it is told, in order, without times."""

    recording = True
    trace_id = "1" * 32

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []

    def child(self, name: str, started: float, attributes: Mapping[str, Any], **of: Any) -> None:
        """Note a span."""
        self.log.append(("child", name, dict(attributes), of.get("error")))

    def calling(self, *_: Any) -> AbstractContextManager[Any]:
        """Note nothing: no call is made."""
        return nullcontext()

    def passed(self, step: str, seconds: float) -> None:
        """Note a step."""
        self.log.append(("passed", step))

    def looked_up(self, *what: Any) -> None:
        """Note it."""
        self.log.append(("looked up", *what))

    def degraded(self, stage: str, reason: str) -> None:
        """Note a loss."""
        self.log.append(("degraded", stage, reason))

    def answered(self, legs: Any, **of: Any) -> None:
        """Note what the answer was made from."""
        self.log.append(("answered", list(legs), of))

    def rejected(self, kind: str) -> None:
        """Note it."""
        self.log.append(("rejected", kind))

    def send(self, topic: str, status: str) -> tuple[tuple[str, bytes], ...]:
        """Note it."""
        self.log.append(("send", topic, status))
        return ()

    def abandoned(self) -> None:
        """Nothing."""

    sent = abandoned


def cases() -> Iterator[Case]:
    """All of them."""
    chance = random.Random(40)
    admit = admission()
    number = 0
    while number < CASES:
        try:
            query = _query(chance, number, admit)
        except InputError:
            continue
        number += 1
        if not query.answered:
            asked = SEARCHES.write(query)
            yield Case(query, asked, {leg: _outcome(chance, query) for leg in asked})


def digest(case: Case, done: InFlight) -> str:
    """The answer, the steps, the requests and the trace, as eight hexadecimal digits."""
    assert isinstance(done.trace, Told)
    own = PUBLISHER.own(done, PUBLISHER.answer(done))
    event = {name: value for name, value in own.items() if name not in {"debug", "next_cursor"}}
    steps = [(step.name, step.candidates) for step in done.steps]
    asked = [(leg, *_request(each)) for leg, each in case.asked.items()]
    retrieval = done.retrieval
    told = event, steps, asked, done.trace.log, done.answered, retrieval.ends, retrieval.end
    written = orjson.loads(orjson.dumps(told, option=orjson.OPT_SERIALIZE_NUMPY, default=str))
    return hashlib.sha256(orjson.dumps(_rounded(written))).hexdigest()[:8]


def _rounded(value: Any) -> Any:
    """With no more digits than every version of Python agrees on: since 3.12 sums of numbers are more exact."""
    match value:
        case float():
            return round(value, 9)
        case list():
            return [_rounded(each) for each in value]
        case dict():
            return {name: _rounded(each) for name, each in value.items()}
    return value


def _request(search: Search) -> tuple[Any, ...]:
    request = next(search.start())
    return type(request).__name__, *request


def _query(chance: random.Random, number: int, admit: Admission) -> InFlight:
    event: dict[str, Any] = {"query_id": f"q{number}", "now": NOW, "limit": chance.choice([0, 1, 3, 20])}

    def maybe(share: float, **fields: Any) -> None:
        if chance.random() < share:
            event.update(fields)

    maybe(0.8, text=chance.choice(_TEXTS))
    maybe(0.2, vector=chance.choice([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    maybe(0.2, subject="a")
    maybe(0.2, filters=[{"field": "tier", "op": "eq", "value": "gold"}])
    maybe(0.1, reflections_only=True)
    maybe(0.8, recipe=chance.choice(sorted(SHIPPED)))
    maybe(0.2, overrides={"score": {"weights": {"structured": 1.0, "keyword_context": 0.5, "vector": 1.0}}})
    maybe(0.3, order_by={"field": "created_at", "direction": chance.choice(["asc", "desc"])})
    maybe(0.5, debug=True)
    maybe(0.3, explain=True)
    maybe(0.3, record=True)
    maybe(0.3, profile=chance.choice(["fast", "deep"]))
    if "order_by" in event and ("vector" in event or event.get("text", "").strip()):
        # Searches could not be ordered when the answers were recorded.
        raise invalid("order_by", "not of a search", event["order_by"])
    given = message(event, number, timestamp=NOW, received=NOW, clock=1e9)
    query = admit(decoder()(given))
    query.trace = Told()
    query.outcome.payloads = {}
    able = query.retrieval.capabilities
    query.retrieval.capabilities = capable(
        able,
        expires=False,
        max_query_limit=chance.choice([1000, 1000, 2]),
        sparse=chance.random() < 0.9,
        dense=chance.random() < 0.9,
        dense_context=chance.random() < 0.5,
        sparse_context=chance.random() < 0.5,
    )
    embedded = query.asked.text is not None and query.asked.event.vector is None
    match chance.choice(["there", "there", "there", "lost", "zero"]) if embedded else "":
        case "there":
            query.retrieval.embedding = Embedding(np.ones(DIMENSION, np.float32))
        case "zero":
            query.retrieval.embedding = Embedding(np.zeros(DIMENSION, np.float32))
        case "lost":
            query.lose("embed", Reason.TIMEOUT)
    return query


def _outcome(chance: random.Random, query: InFlight) -> Found | BackendError:
    if chance.random() < 0.25:
        return chance.choice(_ERRORS)("lost")
    ids = chance.sample([f"p{number}" for number in range(12)], chance.randrange(6))
    scores = sorted((chance.random() for _ in ids), reverse=True)
    payloads: list[Mapping[str, Any]] = [
        {"namespace": "public", "created_at": "2023-11-01T00:00:00Z", "importance": chance.random(), "_content": id_}
        for id_ in ids
    ]
    values = sorted((chance.randrange(4) for _ in ids), reverse=True)
    warnings = ("not all",) if chance.random() < 0.1 else ()
    return Found(Hits(ids, scores, payloads), values, warnings)
