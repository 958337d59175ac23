"""The leg `fuzzy` in the running flows, with Qdrant's engine in the process: misspelt words find what was meant."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import Embedded, embedded_settings, start_with_settings

DOCUMENTS: Final = [
    {"id": "driver", "title": "Screwdriver set", "text": "Six slotted blades, insulated."},
    {"id": "lamp", "title": "Desk lamp", "text": "An arm that folds, and a set of two bulbs."},
    {"id": "stand", "title": "Umbrella stand", "text": "Cast iron."},
]
MODELS: Final = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}


@contextmanager
def indexed(running: Embedded, directory: Path) -> Iterator[QueryClient]:
    """A client of the search flow, with the documents indexed."""
    index_once(running, "documents", lambda: enumerate(DOCUMENTS, 1), "1", directory, Console(quiet=True))
    with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
        yield client


def ask(client: QueryClient, text: str, **event: Any) -> dict[str, Any]:
    """The result of one query."""
    [result] = client.ask([{"query_id": text, "text": text, "explain": True, **event}], 30)
    return result


def legs(result: Mapping[str, Any]) -> dict[str, tuple[str, str | None]]:
    """The status and the reason of each leg."""
    return {leg["name"]: (leg["status"], leg["reason"]) for leg in result["legs"]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Embedded, QueryClient]]:
    """The flows as `evaluate` runs them, which makes the vector by itself."""
    directory = tmp_path_factory.mktemp("fuzzy")
    with start_with_settings(embedded_settings(directory, MODELS)) as running, indexed(running, directory) as client:
        yield running, client


def test_a_misspelt_word_finds_what_was_meant(store: tuple[Embedded, QueryClient]) -> None:
    """No word of the query is in a document; the explanation has the leg, with its weight for a whole query."""
    result = ask(store[1], "screwdrivr", record=True)
    assert (result["results"][0]["id"], legs(result)["fuzzy"]) == ("driver", ("ok", None))
    said = result["results"][0]["explanation"]["legs"]["fuzzy"]
    assert (said["rank"], said["weight"]) == (0, 1.5)
    assert said["score"] > 0.45
    assert "fuzzy" in {leg["name"] for leg in result["pool"]["legs"]}


def test_a_near_word_is_evidence_that_the_explanation_names(store: tuple[Embedded, QueryClient]) -> None:
    """With one edit, and as the end of a compound; what only shares trigrams with the query is no candidate."""
    for text, name, id_ in (
        ("set of screwdrivr", "screwdrivr ~ screwdriver", "driver"),
        ("driver", "driver ~ screwdriver", "driver"),
        ("umbrela", "umbrela ~ umbrella", "stand"),
    ):
        result = ask(store[1], text, record=True)
        first = result["results"][0]
        said = next(step["values"] for step in first["explanation"]["stages"] if step["stage"] == "coverage")
        assert (first["id"], said["words"][name]["fields"]) == (id_, ["title"])
        assert [hit["id"] for leg in result["pool"]["legs"] if leg["name"] == "fuzzy" for hit in leg["hits"]] == [id_]
    assert legs(ask(store[1], "umbrage"))["fuzzy"] == ("skipped", "no_terms")


def test_without_a_misspelt_word_the_answer_is_that_of_the_other_legs(store: tuple[Embedded, QueryClient]) -> None:
    """To the digit: score, total and legs."""
    found, plain = ask(store[1], "lamp set"), ask(store[1], "lamp set", overrides={"score": {"fuzzy": 0}})
    assert legs(found)["fuzzy"] == ("skipped", "no_terms")
    assert "fuzzy" not in legs(plain)
    for name in ("total", "total_relation", "status", "degraded", "warnings"):
        assert found[name] == plain[name]
    assert [(hit["id"], hit["score"], hit["legs"]) for hit in found["results"]] == [
        (hit["id"], hit["score"], hit["legs"]) for hit in plain["results"]
    ]


def test_what_a_query_excludes_is_not_found_by_likeness(store: tuple[Embedded, QueryClient]) -> None:
    """NOT is for every leg."""
    found = ask(store[1], "screwdrivr NOT slotted")
    assert "driver" not in [hit["id"] for hit in found["results"]]


def test_an_index_without_the_vector_is_still_searched(store: tuple[Embedded, QueryClient], tmp_path: Path) -> None:
    """One that was made before has the leg's reason, and one that names none does not mention it."""
    without = {"qdrant": {"path": str(tmp_path), "timeout": 20, "vectors": {"fuzzy": None}}, **MODELS}
    with start_with_settings(embedded_settings(tmp_path, without)) as running, indexed(running, tmp_path) as client:
        unnamed = ask(client, "lamp")
        settings = running.settings
    named = settings.qdrant.vectors.model_copy(update={"fuzzy": "fuzzy"})
    qdrant = settings.qdrant.model_copy(update={"vectors": named})
    with (
        start_with_settings(settings.model_copy(update={"qdrant": qdrant}), None) as running,
        running.searching(),
        QueryClient.connect(running.kafka, running.settings.kafka.topics) as client,
    ):
        older = ask(client, "lamp")
    assert "fuzzy" not in legs(unnamed)
    assert legs(older)["fuzzy"] == ("skipped", "no_sparse_vector")
    assert older["warnings"] == unnamed["warnings"]
    assert [hit["id"] for hit in older["results"]] == [hit["id"] for hit in unnamed["results"]] == ["lamp"]
