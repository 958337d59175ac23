"""An index of small documents, as the indexer makes it, that is asked as the keyword leg will be."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from operators.clients.qdrant.client import QdrantClient
from operators.clients.qdrant_edge.engine import EngineClient
from operators.clients.qdrant_edge.shards import Engine
from operators.collections.catalogue import Catalogue
from operators.collections.making import ensure
from operators.indexing.document import DocumentInFlight
from operators.indexing.point import point
from operators.query.backend_answers import Hits
from operators.query.expression_conditions import keyword_conditions, open_endings
from operators.query.search import Endings, Found, Program, Words, with_endings
from operators.query.search_bodies import ENDINGS
from operators.runtime.event_loop import EventLoopThread, Wakeup
from operators.text.expression import Expression, Parsed
from schemas.document import COLUMNS, DocumentEvent, point_id
from schemas.settings import QdrantSettings
from schemas.settings.qdrant import Bm25Settings
from tests.operators.samples import DIMENSION, message

Document = tuple[str, str]
"""A title and a text."""

BATCH = 250
WORDS = ("a", "ab", "abc", "b", "bc", "ca", "cab", "and", "or", "not", "near", "the", "of", "été", "étage", "Ω", "12")
PREFIXES = ("a", "ab", "c", "ca", "É", "ét", "1", "th", "x")


def corpus(count: int, seed: int = 1) -> list[Document]:
    """Documents of few words, so that every combination of them is there; some have no title."""
    draw = random.Random(seed)

    def some(most: int) -> str:
        return draw.choice((" ", ", ", "-")).join(
            draw.choice((str.lower, str.upper, str.title))(draw.choice(WORDS)) for _ in range(draw.randrange(most))
        )

    return [(some(4), f"{some(7)} x{number}") for number in range(count)]


class Index:
    """Documents by their numbers."""

    def __init__(self, client: QdrantClient, calls: EventLoopThread, catalogue: Catalogue) -> None:
        self._client = client
        self._calls = calls
        self._bm25 = catalogue.analyser("documents")
        self._numbers: dict[str, int] = {}

    def write(self, documents: Sequence[Document]) -> None:
        """Index these documents, with numbers from 0 on."""
        made = [_document(str(number), title, text) for number, (title, text) in enumerate(documents)]
        self._numbers = {each.point_id: number for number, each in enumerate(made)}
        points = [point(each, QdrantSettings(path=Path()).vectors, self._bm25) for each in made]
        self._calls.run(self._client.upsert("documents", points, timeout=60), 60)

    def hits(self, searches: Sequence[dict[str, Any]]) -> list[Hits]:
        """The answers to searches, none of which may fail."""
        found: list[Hits] = []
        for start in range(0, len(searches), BATCH):
            asked = self._client.query_batch("documents", searches[start : start + BATCH], timeout=60)
            for answer in self._calls.run(asked, 60):
                assert isinstance(answer, Hits), answer
                found.append(answer)
        return found

    def matches(self, read: Sequence[Parsed]) -> list[set[int]]:
        """The documents that each expression's filter matches."""
        return [self._found(hits) for hits in self.hits([self._filtered(parsed) for parsed in read])]

    def leg(self, read: Sequence[Parsed]) -> list[set[int]]:
        """The documents that the keyword leg finds: by its terms, and by the filter where they don't cover it."""
        searches, owners = [], []
        for owner, parsed in enumerate(read):
            terms = self._bm25.query(parsed.terms)
            if terms is not None:
                sparse = {"query": {"indices": terms.indices, "values": terms.values}, "using": "bm25"}
                searches.append(self._filtered(parsed) | sparse)
                owners.append(owner)
            if parsed.uncovered or not all(self._bm25.covers(terms, leaf) for leaf in parsed.leaves):
                searches.append(self._filtered(parsed))
                owners.append(owner)
        found: list[set[int]] = [set() for _ in read]
        for owner, hits in zip(owners, self.hits(searches), strict=True):
            found[owner] |= self._found(hits)
        return found

    def counted(self, expression: Expression) -> tuple[Endings, bool]:
        """The endings of the expression's phrases, among all documents."""
        known: list[Endings] = []

        def search(endings: Endings) -> Program:
            known.append(endings)
            yield from ()
            return Found(Hits([], [], []))

        program = with_endings(open_endings(expression, COLUMNS), ENDINGS, search)
        words = next(program)
        assert isinstance(words, Words)
        facets = [
            self._calls.run(self._client.facet("documents", key, where, limit=words.limit, timeout=60), 60)
            for key, where in words.fields
        ]
        with pytest.raises(StopIteration) as ended:
            program.send(facets)
        return known[0], bool(ended.value.value.warnings)

    def _filtered(self, parsed: Parsed) -> dict[str, Any]:
        where = {}
        if parsed.expression is not None:
            endings, cut = self.counted(parsed.expression)
            assert not cut
            where = {"must": [keyword_conditions(parsed.expression, COLUMNS, endings)]}
        return {"filter": where, "limit": max(len(self._numbers), 1), "with_payload": False}

    def _found(self, hits: Hits) -> set[int]:
        return {self._numbers[identity] for identity in hits.ids}


def _document(identity: str, title: str, text: str) -> DocumentInFlight:
    event = DocumentEvent(id=identity, title=title, text=text)
    place = point_id("default", "public", identity)
    return DocumentInFlight(message(), event, "default", "public", "documents", place, 1)


@contextmanager
def index(path: Path, language: str = "none") -> Iterator[Index]:
    """An empty index in this directory, its terms made for this language."""
    settings = QdrantSettings(path=path, dimension=DIMENSION, bm25=Bm25Settings(language=language))
    calls = EventLoopThread(Wakeup())
    with Engine(path) as engine:
        client = EngineClient(engine)
        calls.run(ensure(client, settings, 60), 60)
        try:
            yield Index(client, calls, Catalogue(client, settings))
        finally:
            calls.close()
