"""Each setting that a configuration may have is read by what is made of it: none is taken and left aside in silence.

Reads are noted where a section's value is got, so that a new setting which nothing reads fails here, and one that a
kind of model does not read must be refused for that kind.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from rich.console import Console

from bench import random_bert
from flows.assembly import search
from flows.assembly.clients import Clients, InProcess, embedder_model
from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from operators.clients.local.minilm import MiniLM
from schemas.errors import ConfigError
from schemas.settings import Settings, load
from schemas.settings.section import ModelServer, Section
from tests.operators.samples import METRICS
from tests.schemas.settings.test_config_hash import LEAST, another, paths_of, value_at, with_value

OF_HASHES: Final = {"by_effect", "dangling", "find_changed"}
"""Functions that get every value, and use none."""


class Reads:
    """The paths of the settings that were got."""

    def __init__(self, settings: Settings) -> None:
        # Sections with nothing but defaults may be one object.
        self._of_object: dict[int, list[str]] = {}
        # Of a section a process may make a copy, as for the broker in it.
        self._of_class: dict[type[Section], list[str]] = {}
        self._kept = [*_sections(settings, "")]
        for section, path in self._kept:
            self._of_object.setdefault(id(section), []).append(path)
            self._of_class.setdefault(type(section), []).append(path)
        self.paths: set[str] = set()

    def note(self, section: Section, name: str) -> None:
        """A value of this section was got."""
        paths = self._of_object.get(id(section), self._of_class.get(type(section), []))
        key = type(section).model_fields[name].alias or name
        self.paths |= {f"{path}{key}" for path in paths}


def _sections(section: Section, path: str) -> Iterator[tuple[Section, str]]:
    yield section, path
    for name in type(section).model_fields:
        value = vars(section)[name]
        if isinstance(value, Section):
            yield from _sections(value, f"{path}{name}.")


@contextmanager
def noting(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Reads]:
    """Note what is read of the settings until the block ends."""
    reads = Reads(settings)

    def get(section: Section, name: str) -> Any:
        if name in type(section).model_fields and sys._getframe(1).f_code.co_name not in OF_HASHES:
            reads.note(section, name)
        return object.__getattribute__(section, name)

    with monkeypatch.context() as patch:
        patch.setattr(Section, "__getattribute__", get, raising=False)
        yield reads


URL, MODEL = "http://127.0.0.1:9", "m"
NEEDED: Final[dict[str, dict[str, Any]]] = {
    "embedder": {"rerank": {"kind": "none"}},
    "sparse_encoder": {"qdrant": {**LEAST["qdrant"], "vectors": {"learned": "learned"}}},
    "rerank": {"chat": {"kind": "openai", "url": URL, "model": MODEL}},
    "chat": {},
}
"""By section: further sections without which some of its kinds are refused."""

MODELS: Final[dict[str, type[ModelServer]]] = {name: type(getattr(load(None, LEAST), name)) for name in NEEDED}
KINDS = [
    (name, kind)
    for name, section in MODELS.items()
    for kind in get_args(section.model_fields["kind"].annotation)
    # It keeps the other keys for later.
    if kind != "none"
]


def least(section: str, kind: str, directory: Path) -> dict[str, Any]:
    """The least configuration with this kind of model."""
    given = {"url": URL, "model": MODEL} if kind in MODELS[section].servers else {}
    if kind == "onnx":
        random_bert.write(directory, layers=1, vocabulary=50)
        given = {"path": str(directory)}
    return {**LEAST, **NEEDED[section], section: {"kind": kind, **given}}


def build(settings: Settings) -> None:
    """Make the clients and the stages that call the models, as both flows do."""
    resources = InProcess(settings)
    try:
        made = Clients.of(settings, resources, METRICS)
        if made.embedder is not None:
            search.embeddings(settings, made.embedder, METRICS, tokens=isinstance(made.embedder, MiniLM))
        if made.sparse_encoder is not None:
            search.encodings(settings, made.sparse_encoder, METRICS)
        if made.chat is not None:
            search.by_chat_model(settings, made.chat)
        search.picking(settings, made.chat, METRICS)
        search.reranking(settings, made.reranker, METRICS)
        embedder_model(settings.embedder)
        asyncio.run(_close(made))
    finally:
        resources.close()


async def _close(made: Clients) -> None:
    for each in made.connections.values():
        await each.aclose()


def takes(document: dict[str, Any], path: str, value: object) -> bool:
    """True if this value is taken there."""
    try:
        load(None, with_value(document, path, value))
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(("section", "kind"), KINDS)
def test_a_key_of_a_model_is_read_for_each_kind_that_takes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, section: str, kind: str
) -> None:
    """One that a kind does not read is refused for it, such as the model's name for the model in this process."""
    document = least(section, kind, tmp_path)
    settings = load(None, document)
    with noting(monkeypatch, settings) as reads:
        build(settings)
    keys = [f"{section}.{each}" for each in paths_of(type(getattr(settings, section)))]
    taken = {path for path in keys if takes(document, path, another(path, value_at(settings, path)))}
    assert taken - reads.paths == set()


ELSEWHERE: Final = {
    **dict.fromkeys(("kafka.partitions", "kafka.replication_factor"), "rankstream topics"),
    **dict.fromkeys(("kafka.transaction_timeout", "delivery.replica"), "transactions, which this broker has not"),
    **{f"telemetry.{name}": "the process around the flows" for name in ("host", "port", "log_level", "log_format")},
    "qdrant.owned": "collections that another program made",
    **dict.fromkeys(("kafka.topics.feedback", "kafka.topics.preferences"), "the flow that learns"),
    "delivery.replies.withheld_headers": "queries with headers",
}
"""Setting -> who reads it, of those that flows with everything in one process do not."""

QUERIES: Final[list[dict[str, Any]]] = [
    {"text": "b"},
    {"text": "b", "group_by": "title", "overrides": {"coverage": {"weight": 0.5}}, "reply_to": "results"},
]


def test_every_setting_is_read_by_running_flows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both flows over a document and two queries: what a configuration may set by itself, they read."""
    with start_with_settings(embedded_settings(tmp_path)) as running, noting(monkeypatch, running.settings) as reads:
        index_once(running, "documents", lambda: [(1, {"id": "a", "text": "b"})], "1", tmp_path, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            events = [{**query, "query_id": f"q{number}"} for number, query in enumerate(QUERIES)]
            assert {each["status"] for each in client.ask(events, 30)} == {"ok"}
    document = {"qdrant": {"path": str(tmp_path)}}
    settings = load(None, document)
    paths = [path for path in paths_of(Settings) if takes(document, path, another(path, value_at(settings, path)))]
    assert sorted({*paths} - reads.paths - ELSEWHERE.keys()) == []
