"""Section `embedder`: the prompts of each purpose, and what can't be used."""

from typing import Any

import pytest

from schemas.settings import EmbedderSettings, load

URL = "http://embedder/v1"


def of(**embedder: Any) -> EmbedderSettings:
    """This section, of a server unless it says otherwise."""
    sections = {"qdrant": {"url": "http://q"}, "rerank": {"kind": "none"}}
    place = {} if embedder.get("kind") == "minilm" else {"url": URL}
    return load(None, {**sections, "embedder": {"kind": "tei", **place, **embedder}}).embedder


@pytest.mark.parametrize(
    ("section", "purposes"),
    [
        ({}, {}),
        ({"kind": "minilm"}, {}),
        ({"kind": "none"}, None),
        ({"prompts": "e5"}, {"query": {"prefix": "query: "}, "document": {"prefix": "passage: "}}),
        (
            {"prompts": "nomic", "kind": "openai"},
            {"query": {"prefix": "search_query: "}, "document": {"prefix": "search_document: "}},
        ),
        ({"prompts": "e5", "query_prefix": "q "}, {"query": {"prefix": "q "}, "document": {"prefix": "passage: "}}),
        ({"prompts": "e5", "document_prefix": ""}, {"query": {"prefix": "query: "}}),
        ({"document_prefix": "d "}, {"document": {"prefix": "d "}}),
        ({"query_prompt_name": "web"}, {"query": {"prompt_name": "web"}}),
        (
            {"kind": "cohere"},
            {"query": {"input_type": "search_query"}, "document": {"input_type": "search_document"}},
        ),
        ({"kind": "voyage"}, {"query": {"input_type": "query"}, "document": {"input_type": "document"}}),
        (
            {"kind": "nim", "query_prefix": "q "},
            {"query": {"prefix": "q ", "input_type": "query"}, "document": {"input_type": "passage"}},
        ),
    ],
)
def test_a_purpose_has_its_prompts(section: dict[str, Any], purposes: Any) -> None:
    """The prefixes of the model's family, unless they are set; names and types as the server has them."""
    assert of(**section).purposes == purposes


@pytest.mark.parametrize("prompts", ["e5", "nomic", "embeddinggemma", "qwen3", "bge"])
def test_a_family_has_a_prefix_for_queries(prompts: str) -> None:
    """Some have none for documents."""
    purposes = of(prompts=prompts).purposes
    assert purposes is not None
    assert purposes["query"]["prefix"]
