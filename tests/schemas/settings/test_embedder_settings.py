"""Section `embedder`: the prompts of each purpose, and what can't be used."""

from typing import Any

import pytest

from schemas.errors import ConfigError
from schemas.settings import EmbedderSettings, load

URL = "http://embedder/v1"


def of(**embedder: Any) -> EmbedderSettings:
    """This section, of a server unless it says otherwise."""
    sections = {"qdrant": {"url": "http://q"}, "rerank": {"kind": "none"}}
    return load(None, {**sections, "embedder": {"kind": "tei", "url": URL, **embedder}}).embedder


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


@pytest.mark.parametrize(
    ("section", "said"),
    [
        *(({"kind": kind, "url": None}, f"{kind} needs url") for kind in ("openai", "tei", "cohere", "voyage", "nim")),
        ({"kind": "minilm", "prompts": "e5"}, "minilm has no use of prompts and dimensions"),
        ({"kind": "none", "document_prefix": "d"}, "none has no use of prompts and dimensions"),
        ({"kind": "minilm", "dimensions": 256}, "minilm has no use of prompts and dimensions"),
        ({"kind": "none", "precision": "int8"}, "none has no use of precision"),
        ({"kind": "openai", "query_prompt_name": "web"}, "openai knows no names of prompts"),
        ({"prompts": "gpt"}, "embedder.prompts: "),
        ({"dimensions": 0}, "embedder.dimensions: "),
    ],
)
def test_what_cannot_be_used_is_refused(section: dict[str, Any], said: str) -> None:
    """Missing addresses, and prompts that nobody would put in."""
    with pytest.raises(ConfigError) as caught:
        of(**section)
    assert said in str(caught.value)
