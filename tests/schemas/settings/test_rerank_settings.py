"""Section `rerank`: what suits each kind, what can't be used, and what of it can change an answer."""

import json
from typing import Any, get_args

import pytest

from operators.clients.rerankers.cross_encoders import APIS
from schemas.errors import ConfigError
from schemas.settings import RerankSettings, Settings, load

LEAST: dict[str, Any] = {"qdrant": {"url": "http://qdrant:6333"}}
CHAT: dict[str, Any] = {"kind": "openai", "url": "http://chat/v1", "model": "m"}
PLACES: dict[str, dict[str, Any]] = {
    "late_interaction": {},
    "onnx": {"path": "/models/reranker"},
    **{kind: {"url": "http://reranker"} for kind in APIS},
    "chat": {},
    "none": {},
}
"""The kinds, and where each has its model."""


def of(**rerank: Any) -> Settings:
    """Settings with this section, and a chat model."""
    return load(None, {**LEAST, "rerank": rerank, "chat": CHAT})


def test_every_kind_is_tried() -> None:
    """These are all kinds that there are."""
    assert set(get_args(RerankSettings.model_fields["kind"].annotation)) == PLACES.keys()


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, place in PLACES.items() for name in place])
def test_a_kind_needs_its_place(kind: str, name: str) -> None:
    """The address of its server, or the model's directory."""
    with pytest.raises(ConfigError, match=f"^rerank: {kind} needs {name}$"):
        load(None, {**LEAST, "rerank": {"kind": kind}})


@pytest.mark.parametrize(
    ("kind", "documents", "calls"),
    [
        ("late_interaction", 16, 16),
        ("onnx", 256, 1),
        ("cohere", 1000, 16),
        ("voyage", 1000, 16),
        ("tei", 32, 16),
        ("tei_predict", 32, 16),
        ("vllm_score", 512, 2),
        ("nim", 512, 16),
        ("dashscope", 500, 16),
        ("llama_server", 1000, 16),
    ],
)
def test_what_suits_a_kind_is_its_default(kind: str, documents: int, calls: int) -> None:
    """Documents a call and calls at a time; what is set goes over it."""
    section = of(kind=kind, **PLACES[kind]).rerank
    assert (section.documents, section.calls) == (documents, calls)
    own = of(kind=kind, **PLACES[kind], max_batch=7, max_concurrency=1).rerank
    assert (own.documents, own.calls) == (7, 1)


def test_the_least_section_is_late_interaction() -> None:
    """Nothing need be said: no server, all of the score, all of a document, no bound on characters, nobody trusted."""
    section = load(None, LEAST).rerank
    assert (section.kind, section.idf, section.trusted) == ("late_interaction", True, False)
    assert (section.max_doc_chars, section.max_batch_chars) == (0, 0)
    assert (section.url, section.path, section.secret("api_key")) == (None, None, None)
    assert (section.mode, section.timeout, section.cache) == ("order", 2.0, 50_000)


@pytest.mark.parametrize("bound", [0, -1])
@pytest.mark.parametrize("kind", [kind for kind in PLACES if kind not in {"onnx", "chat"}])
def test_calls_may_be_unbounded(kind: str, bound: int) -> None:
    """0 or less is no bound, also where a kind has one of its own."""
    assert of(kind=kind, **PLACES[kind], max_concurrency=bound).rerank.calls == bound


def test_a_bound_is_checked_by_what_suits_the_kind() -> None:
    """A model in this process makes one call at a time, said or not."""
    assert of(kind="onnx", path="/m").rerank.calls == of(kind="onnx", path="/m", max_concurrency=1).rerank.calls == 1


DECIDES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"kind": "none"}),
    ({}, {"kind": "chat"}),
    ({"kind": "cohere", "url": "http://r"}, {"kind": "voyage"}),
    ({"kind": "onnx", "path": "/a"}, {"path": "/b"}),
    ({"kind": "onnx", "path": "/a"}, {"file": "model_O3.onnx"}),
    ({"kind": "onnx", "path": "/a"}, {"precision": "int8"}),
    ({"kind": "cohere", "url": "http://r"}, {"model": "another"}),
    ({"kind": "chat"}, {"mode": "pick"}),
    ({}, {"idf": False}),
    ({"kind": "cohere", "url": "http://r"}, {"omitted": "drop"}),
    ({}, {"on_the_fly": True}),
    ({"kind": "chat"}, {"max_doc_chars": 300}),
    ({"kind": "cohere", "url": "http://r"}, {"max_batch_chars": 4000}),
    ({"kind": "cohere", "url": "http://r"}, {"body": {"truncate": True}}),
    ({"kind": "vllm_score", "url": "http://r"}, {"prompts": "qwen3"}),
    ({"kind": "sglang", "url": "http://r"}, {"instruction": "find bugs"}),
    ({"kind": "vllm", "url": "http://r"}, {"query_template": "query: {query}"}),
    ({"kind": "vllm", "url": "http://r"}, {"document_template": "passage: {document}"}),
]
DECIDES_NOT: list[dict[str, Any]] = [
    {"url": "http://another"},
    {"timeout": 9.0},
    {"keep_alive": 9.0},
    {"max_batch": 9},
    {"max_concurrency": 9},
    {"trusted": True},
    {"cache": 0},
    {"api_key_file": "/run/key"},
    {"api_key_file": "/run/key", "api_key_header": "api-key"},
    {"headers": {"x-gateway": "a"}},
    {"header_files": {"x-gateway": "/run/h"}},
    {"request_path": "/v2/rerank"},
    {"query": {"api-version": "1"}},
    {"tls": {"ca": "/run/ca"}},
]


@pytest.mark.parametrize(("before", "change"), DECIDES)
def test_the_hash_changes_with_what_decides(before: dict[str, Any], change: dict[str, Any]) -> None:
    """The judge, the part of the texts that it reads, and the use of its verdict."""
    assert of(**before).config_hash() != of(**{**before, **change}).config_hash()


@pytest.mark.parametrize("kind", ["vllm_score", "tei_predict"])
@pytest.mark.parametrize("change", DECIDES_NOT)
def test_the_hash_does_not_change_with_how_it_is_asked(kind: str, change: dict[str, Any]) -> None:
    """The address, the time, the number and size of the calls, and the key do not count."""
    before = {"kind": kind, **PLACES[kind]}
    assert of(**before).config_hash() == of(**{**before, **change}).config_hash()


def test_each_setting_is_on_one_side() -> None:
    """None of the section was forgotten."""
    tried = {name for _, change in DECIDES for name in change} | {name for change in DECIDES_NOT for name in change}
    assert tried == RerankSettings.model_fields.keys() - {"api_key"}


def test_the_environment_sets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every setting has its variable, and each is read as what it is."""
    values: dict[str, Any] = {
        # Switched off it may have all of them.
        "kind": "none",
        "url": "http://r:8000",
        "path": "/m",
        "model": "bge",
        "mode": "pick",
        "idf": False,
        "on_the_fly": True,
        "timeout": 1.5,
        "keep_alive": 2.5,
        "max_batch": 64,
        "max_concurrency": -1,
        "max_doc_chars": 1000,
        "max_batch_chars": 4000,
        "trusted": True,
        "omitted": "drop",
        "prompts": "qwen3",
        "instruction": "find bugs",
        "query_template": "{instruction}: {query}",
        "document_template": "passage: {document}",
        "cache": 7,
        "api_key_header": "api-key",
        "headers": {"x-gateway": "a"},
        "request_path": "/v2/rerank",
        "query": {"api-version": "1"},
        "body": {"truncate": True},
    }
    for name, value in values.items():
        written = json.dumps(value) if isinstance(value, dict) else str(value)
        monkeypatch.setenv(f"RANKSTREAM_RERANK__{name.upper()}", written)
    monkeypatch.setenv("RANKSTREAM_RERANK__API_KEY", " a-key ")
    section = load(None, {**LEAST, "rerank": {"kind": "tei", "mode": "order"}}).rerank
    assert {name: getattr(section, name) for name in values} == {**values, "path": section.path}
    assert (str(section.path), section.secret("api_key")) == ("/m", "a-key")
    onnx = {"kind": "onnx", "file": "model_O3.onnx", "precision": "int8", "max_concurrency": 1}
    for name in values:
        monkeypatch.delenv(f"RANKSTREAM_RERANK__{name.upper()}", raising=False)
    for name, value in {**onnx, "path": "/m"}.items():
        monkeypatch.setenv(f"RANKSTREAM_RERANK__{name.upper()}", str(value))
    monkeypatch.delenv("RANKSTREAM_RERANK__API_KEY")
    section = load(None, LEAST).rerank
    assert {name: getattr(section, name) for name in onnx} == onnx
    tried = values.keys() | onnx.keys()
    assert tried == RerankSettings.model_fields.keys() - {"api_key", "api_key_file", "header_files", "tls"}


@pytest.mark.parametrize("kind", ["openai", "tei"])
def test_late_interaction_needs_an_embedder_of_tokens(kind: str) -> None:
    """A server's embeddings have none; other rerankers need none."""
    embedder = {"kind": kind, "url": "http://e"}
    for rerank in ({"kind": "none"}, {"kind": "cohere", "url": "http://r"}):
        load(None, {"qdrant": {"url": "http://q"}, "embedder": embedder, "rerank": rerank})


def test_a_chat_models_parameters_are_any_but_those_of_other_keys() -> None:
    """Values are JSON, null among them."""
    parameters = {"temperature": None, "thinking": {"type": "enabled", "budget_tokens": 1024}, "stop": ["x"]}
    assert load(None, {**LEAST, "chat": {**CHAT, "parameters": parameters}}).chat.parameters == parameters


def test_templates_are_those_of_the_family_unless_they_are_set() -> None:
    """The instruction stands in its place; without templates there are none, and each can be set by itself."""
    place: dict[str, Any] = {"kind": "vllm_score", "url": "http://r"}
    assert of(**place).rerank.templates is None
    query, document = of(**place, prompts="qwen3").rerank.templates or ("", "")
    assert "<Instruct>: Given a web search query" in query
    assert query.endswith("<Query>: {query}\n")
    assert document.startswith("<Document>: {document}<|im_end|>")
    own = of(**place, prompts="qwen3", instruction="find bugs", document_template="{document}!").rerank.templates
    assert own == (
        query.replace("Given a web search query, retrieve relevant passages that answer the query", "find bugs"),
        "{document}!",
    )
    assert of(**place, query_template="{instruction}? {query}", instruction="x").rerank.templates == (
        "x? {query}",
        "{document}",
    )
