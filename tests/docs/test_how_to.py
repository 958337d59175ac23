"""The how-to pages without a broker: their programs run, and their examples are rankstream's answers."""

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from bench.ports import free_port
from flows.assembly.query import document_decoder, expression_columns, own_names
from operators.access.policy import judge
from operators.indexing.document import DocumentInFlight
from operators.indexing.point import payload
from operators.runtime.dispatcher import Bounds
from operators.runtime.stage import Batches, async_stage, sync_stage
from operators.stages.rules import read_tried
from schemas.document import DocumentEvent
from schemas.errors import BackendUnavailable, Reason
from schemas.filters import Group
from schemas.query import QueryEvent
from schemas.result import DenialCode
from schemas.settings import DeliverySettings, KafkaSettings, load
from tests.docs.pages import DOCS, Block, blocks
from tests.integration.deployment import wait_until
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import admission, decoder, message


def of(page: str, info: str) -> list[Block]:
    """The blocks of a how-to page with an info string."""
    return [block for block in blocks(DOCS / "how-to" / page) if block.info == info]


def run(command: str, folder: Path) -> str:
    """The output of a block of the shell in a folder; it must succeed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_policies_deny_what_the_page_says(tmp_path: Path) -> None:
    """The denied result is the assistant's, an unknown source may not read, and the document is one to hide."""
    [config] = of("policies.md", "yaml")
    (tmp_path / "rankstream.yaml").write_text(config.text)
    settings = load(tmp_path / "rankstream.yaml", {"qdrant": {"url": "http://localhost:6333"}})
    sources, firewall = settings.policies.sources, settings.firewall
    asked = "default", None, "acme", "read"
    denied = judge(sources["assistant"], firewall, *asked, "deep")
    [result] = of("policies.md", "json result")
    assert denied is not None
    assert json.loads(result.text)["denied"] == {"code": denied.code, "reason": denied.reason}
    assert judge(sources["assistant"], firewall, *asked, "fast") is None
    assert judge(sources["back-office"], firewall, *asked, "deep") is None
    unknown = judge(settings.policies.default, firewall, *asked, "deep")
    assert unknown is not None
    assert unknown.code is DenialCode.SOURCE_NOT_PERMITTED_TO_READ
    [document] = of("policies.md", "json document")
    event = DocumentEvent.model_validate_json(document.text)
    assert event.model_dump()["classification"] == "confidential"


def test_own_names_are_in_queries_and_results(tmp_path: Path) -> None:
    """The page's document returns under its names without id and text, and the page's query means its fields."""
    config, *_ = of("own-documents.md", "yaml")
    (tmp_path / "rankstream.yaml").write_text(config.text)
    settings = load(tmp_path / "rankstream.yaml")
    names = own_names(settings)
    assert names is not None
    [export], [asked] = of("own-documents.md", "json"), of("own-documents.md", "json query")
    sent = json.loads(export.text)
    document = document_decoder(settings)(message(sent))
    assert isinstance(document, DocumentInFlight)
    assert (document.event.id, document.event.text) == (sent.pop("nid"), sent["content"].pop("body"))
    stored = {name: value for name, value in payload(document).items() if name in document.event.model_fields_set}
    hits = [{"id": stored.pop("id"), "text": stored.pop("text"), "payload": stored}]
    [hit] = names.write({"results": hits, "warnings": []})["results"]
    assert hit["payload"] == sent
    event = QueryEvent.model_validate(names.read(json.loads(asked.text)))
    assert event.order_by is not None
    assert event.returned is not None
    assert (event.order_by.field, event.returned.fields) == (
        "own_priority",
        ["title", "content", "text", "own_priority"],
    )
    assert [each.field for each in event.filters if not isinstance(each, Group)] == ["own_priority"]
    assert expression_columns(settings)["headline"] == "title"


def test_the_rules_of_the_page_work(tmp_path: Path) -> None:
    """The command that tries the page's rules prints what the page says."""
    rules, expected = of("rules.md", "json rules"), of("rules.md", "json output")
    (tmp_path / "rules.jsonl").write_text(rules[0].text)
    (tmp_path / "rankstream.yaml").write_text(f"{of('rules.md', 'yaml')[0].text}\nqdrant: {{path: {tmp_path}}}\n")
    assert run(of("rules.md", "sh")[0].text, tmp_path) == expected[0].text
    [tried] = of("rules.md", "json query")
    event = QueryEvent.model_validate_json(tried.text)
    assert [*read_tried(event.rules or {}).rules] == ["sale"]


@pytest.mark.slow
def test_the_small_server_reranks(tmp_path: Path) -> None:
    """`check` has a text scored by the page's server, with the page's configuration."""
    port = str(free_port(1))
    [server] = of("own-reranker.md", "python")
    _, config = of("own-reranker.md", "yaml")
    (tmp_path / "rankstream.yaml").write_text(config.text.replace("8090", port))
    with subprocess.Popen(
        [sys.executable, "-c", server.text.replace("8090", port)], stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(
                lambda: (
                    subprocess.run(["bash", "-c", f"</dev/tcp/127.0.0.1/{port}"], stderr=subprocess.DEVNULL).returncode
                    == 0
                )
            )
            told = run(of("own-reranker.md", "sh")[0].text, tmp_path)
        finally:
            process.kill()
    assert re.search(r"ok +reranker: cohere words answers", " ".join(told.split()))


def test_a_stage_of_ones_own_runs() -> None:
    """The page's stage, in the page's place of the flow: what is misspelt is searched for as it is corrected, what can
    not be corrected is searched for as it is, and says so.
    """
    [page] = of("own-stage.md", "python")
    [flow] = of("own-stage.md", "python flow")
    own: dict[str, Any] = {}
    exec(compile(page.text, "spelling.py", "exec"), own)

    async def correct(texts: Sequence[str], timeout: float) -> Sequence[str]:
        if "down" in texts:
            raise BackendUnavailable("the speller is down")
        return [text.replace("bleu", "blue") for text in texts]

    spelling = own["Spelling"](correct, Bounds(timeout=5, max_batch=1, max_concurrency=8))
    with looping() as calls:
        parts = SimpleNamespace(decoder=decoder(), spelling=spelling, admission=admission(), calls=calls)

        def built(queries: Batches) -> Batches:
            made: dict[str, Any] = {
                "deserialised": queries,
                "p": parts,
                "sync_stage": sync_stage,
                "async_stage": async_stage,
            }
            exec(textwrap.dedent(flow.text), made)
            admitted: Batches = made["admitted"]
            return admitted

        texts = ("a bleu lantern", "down", "a red lantern")
        asked = [message({"query_id": text, "text": text}, offset) for offset, text in enumerate(texts)]
        left = {each.asked.event.query_id: each for each in items([asked], built)}
    assert {each.asked.text for each in left.values()} == {"a blue lantern", "down", "a red lantern"}
    corrected = left["a bleu lantern"]
    assert corrected.outcome.warnings == ["searched for 'a blue lantern'"]
    assert corrected.retrieval.terms is not None
    assert left["down"].outcome.degraded == [("spelling", Reason.UNAVAILABLE)]
    assert left["a red lantern"].outcome.degraded == left["a red lantern"].outcome.warnings == []


def pools(folder: Path) -> Iterator[str]:
    """A pool for each of the page's queries, with every document of the page in both legs."""
    found = [json.loads(line)["id"] for line in (folder / "documents.jsonl").read_text().splitlines()]
    hits = [{"id": id_, "score": 1 / rank} for rank, id_ in enumerate(found, 1)]
    for line in (folder / "queries.jsonl").read_text().splitlines():
        legs = [{"name": name, "hits": hits} for name in ("vector", "keyword")]
        yield json.dumps({"query": json.loads(line), "now": 0, "legs": legs})


@pytest.mark.slow
@pytest.mark.weights
def test_recipes_are_compared(tmp_path: Path) -> None:
    """The page's commands that compare succeed one after the other, each with a row for what it measures."""
    judged, compared, beside, *_ = (block.text for block in of("tuning.md", "sh"))
    run(judged, tmp_path)
    table = run(compared, tmp_path)
    assert all(recipe in table for recipe in ("keyword", "vector", "hybrid", "hybrid+rerank"))
    assert run(beside, tmp_path).count("sign test") == 2


@pytest.mark.slow
@pytest.mark.weights
def test_recipes_are_tuned(tmp_path: Path) -> None:
    """The page's commands that tune succeed, on documents and on recorded pools; what is written configures."""
    judged, _, _, tuned, recorded = (block.text for block in of("tuning.md", "sh"))
    run(judged, tmp_path)
    assert "held-out queries" in run(tuned, tmp_path)
    assert "hybrid" in load(tmp_path / "tuned.yaml", {"qdrant": {"url": "http://localhost:6333"}}).recipes
    (tmp_path / "results.jsonl").write_text("\n".join(pools(tmp_path)))
    assert "4 queries are judged" in run(recorded, tmp_path)


def test_the_defaults_of_kafka_are_all_compared() -> None:
    """The table of services has every key of the section, each with the default that it has."""
    text = (DOCS / "how-to" / "managed-kafka.md").read_text()
    table = text.partition("## The defaults, service by service")[2].partition("## Permissions")[0]
    keys = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    named = [name for key in keys for name in re.findall(r"`([a-z_.]+(?:: [^`]+)?)`", key)]
    sections = {"kafka": KafkaSettings(), "delivery": DeliverySettings()}
    for name in named:
        path, given, default = name.partition(": ")
        whole = path if path.startswith("delivery.") else f"kafka.{path}"
        if given:
            section, *rest = whole.split(".")
            assert reduce(getattr, rest, sections[section]) == yaml.safe_load(default), name
    assert {name.partition(":")[0].partition(".")[0] for name in named} >= KafkaSettings.model_fields.keys()
