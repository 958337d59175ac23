"""Oracles: a source asks about its own documents, and reads by their scores what it may not see."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pytest

from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.analysers import Bm25
from operators.query.backend_answers import Embedding, Hits
from operators.query.in_flight import InFlight
from operators.query.search import Found
from operators.runtime.dispatcher import Bounds
from operators.stages.leg import SearchLeg
from operators.text.expression import parse
from schemas.document import point_id
from schemas.result import KEYWORD, KEYWORD_CONTEXT, VECTOR, VECTOR_CONTEXT
from schemas.settings import FirewallSettings, PolicySettings
from schemas.settings.policies import SourcePolicy
from schemas.settings.qdrant import Bm25Settings
from tests.operators.indexing.neighbours import Event, Index, settings
from tests.operators.samples import DIMENSION, capable, decoder, message, searches

TIMEOUT: Final = 30.0
PINS: Final = [f"{number:04}" for number in range(0, 10_000, 61)]
PIN: Final = PINS[77]
ANALYSER: Final = Bm25(Bm25Settings(language="none"))

MINE: Final = point_id("default", "public", "mine")
LIST: Final = point_id("default", "public", "list")

SECRETS: Final[list[Event]] = [
    {"id": "before", "turn": 1, "text": f"harbour {PIN}", "vector": [1.0, 0.0, 0.0], "classification": "restricted"},
    {"id": "after", "turn": 3, "text": f"violin {PIN}", "vector": [1.0, 0.0, 0.0], "labels": ["board"]},
    {"id": "odd", "turn": 4, "text": f"lantern {PIN}", "vector": [1.0, 0.0, 0.0], "classification": "cosmic"},
    {"id": "foreign", "namespace": "other", "text": "bridge", "vector": [1.0, 0.0, 0.0]},
]
OWN: Final[list[Event]] = [
    {"id": "mine", "turn": 2, "text": "the orchard", "vector": [0.0, 1.0, 0.0]},
    {"id": "list", "text": " ".join(PINS), "vector": [0.0, 0.0, 1.0]},
]
"""The source's own documents: a message between two secrets, and one that holds every pin."""


class Source:
    """A source without clearance that asks an index."""

    def __init__(self, engine: Engine, *, idf: str = "namespace") -> None:
        self._client = EngineClient(engine)
        self._searches = searches(idf_of_namespace=idf == "namespace")
        self._able = capable(dense_context=True, sparse_context=True)
        self._decoder = decoder(
            firewall=FirewallSettings(enabled=True, blocked_labels=["board"]),
            policies=PolicySettings(default=SourcePolicy()),
        )
        self.asked = 0

    def hits(self, leg: str, text: str, vector: Sequence[float] = (1.0, 0.0, 0.0)) -> dict[str, float]:
        """The scores that a leg of the recipe `conversation` gives to the documents of a query."""
        self.asked += 1
        query: InFlight = self._decoder(message({"query_id": "q", "text": "x", "recipe": "conversation"}))
        retrieval = query.retrieval
        retrieval.terms = ANALYSER.query(text)
        retrieval.parsed = parse(text, {})
        retrieval.embedding = Embedding(np.array(vector, np.float32))
        found = self._search(leg, query)
        return dict(zip(found.hits.ids, found.hits.scores, strict=True))

    def like(self, leg: str, **like: Any) -> Found:
        """The documents that a leg finds to be like others."""
        event = {"query_id": "q", "recipe": "conversation", "like": like}
        return self._search(leg, self._decoder(message(event)))

    def _search(self, leg: str, query: InFlight) -> Found:
        query.retrieval.capabilities = self._able
        self._searches(query)
        stage = SearchLeg(leg, self._client, Bounds(1, 1, 1))
        request = stage.ask(query)
        assert request is not None
        [found] = asyncio.run(stage.call(request[0], [request[1]], TIMEOUT))
        assert isinstance(found, Found)
        assert isinstance(found.hits, Hits)
        return found


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An index of SECRETS and OWN, whose neighbours are those of one conversation, in this order of the events."""
    with Engine(tmp_path_factory.mktemp("oracles")) as engine:
        index = Index(engine, settings(group_by=None))
        asyncio.run(index.create())
        index.apply([[OWN, SECRETS]], 0)
        yield engine


def read_out(holds: Callable[[list[str]], bool]) -> str | None:
    """The pin, by halves: `holds` says whether it is among some; None where it says so of none."""
    left = PINS
    while len(left) > 1:
        half = left[: len(left) // 2]
        left = half if holds(half) else left[len(half) :]
    return left[0] if holds(left) else None


def test_no_pin_is_read_by_the_words_of_a_context(engine: Engine) -> None:
    """The message is found by its own words, and by none of a document that has another tier or other labels."""
    source = Source(engine)
    assert MINE in source.hits(KEYWORD_CONTEXT, "orchard")
    assert read_out(lambda pins: MINE in source.hits(KEYWORD_CONTEXT, " ".join(pins))) is None
    assert source.asked <= 22


def test_no_direction_of_a_secret_is_in_a_context(engine: Engine) -> None:
    """A message's context points where the message does, and so tells no direction of its neighbours."""
    source = Source(engine)
    for vector in np.eye(DIMENSION).tolist():
        own, context = (source.hits(leg, "x", vector)[MINE] for leg in (VECTOR, VECTOR_CONTEXT))
        assert context == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize("leg", [KEYWORD, KEYWORD_CONTEXT])
@pytest.mark.parametrize("idf", ["namespace", "collection"])
def test_no_pin_is_read_by_the_rarity_of_a_word(engine: Engine, leg: str, idf: str) -> None:
    """Of the words of one's own document, none is told to be in secrets by weighing less than the others."""
    source = Source(engine, idf=idf)
    scores = [source.hits(leg, pin)[LIST] for pin in (PIN, *PINS[:5])]
    assert scores == pytest.approx([scores[0]] * len(scores), rel=1e-5)


@pytest.mark.parametrize("leg", [VECTOR, VECTOR_CONTEXT, KEYWORD, KEYWORD_CONTEXT])
def test_no_secret_is_told_from_a_document_that_does_not_exist(engine: Engine, leg: str) -> None:
    """A secret as an example gives the hits and the warnings of an id that nothing has, but for the id."""
    source = Source(engine)
    for secret in (each["id"] for each in SECRETS):
        for like in ({"ids": ["?"]}, {"ids": ["mine", "?"]}, {"ids": ["list"], "unlike": ["?"]}):
            found, nothing = (
                source.like(leg, **{key: [id_ if each == "?" else each for each in ids] for key, ids in like.items()})
                for id_ in (secret, "nowhere")
            )
            assert found._replace(warnings=[]) == nothing._replace(warnings=[])
            assert [each.replace(secret, "nowhere") for each in found.warnings] == [*nothing.warnings]
            assert secret in found.warnings[0]
    assert source.like(VECTOR, ids=["mine"]).hits.ids == [LIST]


def test_no_pin_is_read_by_what_a_phrase_may_end_in(engine: Engine) -> None:
    """A phrase that ends in a prefix finds one's own documents alone, by their words alone."""
    source = Source(engine)
    assert source.hits(KEYWORD, f'"harbour {PIN[:2]}"*') == {}
    assert LIST in source.hits(KEYWORD, f'"{PINS[0]} {PINS[1][:2]}"*')
