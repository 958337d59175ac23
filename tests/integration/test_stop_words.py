"""Queries of stop words alone, in the running flows with the model's weights: a title made of them is found first."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings

TITLES: Final = {
    "band": ("The Who", "Loud musicians from London, known for operas."),
    "play": ("To be or not to be", "A prince speaks to himself in the third act."),
    "novel": ("It", "A clown frightens a town in Maine."),
    "game": ("Die, der, das", "Ein Spiel mit Karten, ab sechs Jahren."),
}
FILLED: Final = (
    "The {0} of the one who is not there, or is it to be that the {0} who was to be the {0} is not the {0} it was? It"
    " is to it that the {0} is, and who is it if not the one who is the {0}?",
    "Die {0}, die der {0} ist, und das, was der {0} ist, ist die {0} der {0}, die das {0} nicht ist: der, die und das.",
)
"""Texts full of stop words, about a noun."""

NOUNS: Final = ("harbour", "council", "letter", "bridge", "orchard", "lantern", "river", "garden", "teacher", "winter")


def documents() -> Iterator[dict[str, Any]]:
    """The titles, and long texts full of their words."""
    for id_, (title, text) in TITLES.items():
        yield {"id": id_, "title": title, "text": text, "lang": "de" if id_ == "game" else "en"}
    for noun in NOUNS:
        for lang, text in zip(("en", "de"), FILLED, strict=True):
            filled = " ".join([text.format(noun)] * 3)
            yield {"id": f"{noun}-{lang}", "title": f"About a {noun}", "text": filled, "lang": lang}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryClient]:
    """A client of the search flow, with the documents indexed, in two languages."""
    directory = tmp_path_factory.mktemp("stop-words")
    qdrant = {"path": str(directory), "vectors": {"fuzzy": "fuzzy"}, "bm25": {"languages": {"de": "german"}}}
    with start_with_settings(embedded_settings(directory, {"qdrant": qdrant})) as running:
        index_once(running, "documents", lambda: enumerate(documents(), 1), "1", directory, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            yield client


@pytest.mark.weights
@pytest.mark.parametrize("rerank", [False, True])
@pytest.mark.parametrize(("text", "id_"), [*((title, id_) for id_, (title, _) in TITLES.items()), ("who the", "band")])
def test_a_title_of_the_querys_stop_words_is_first(client: QueryClient, text: str, id_: str, rerank: bool) -> None:
    """In the recipe `hybrid`, with the model and without it, whatever long texts are full of the same words."""
    event = {"query_id": f"{text} {rerank}", "text": text, "rerank": rerank}
    [result] = client.ask([event], 60)
    assert result["results"][0]["id"] == id_
