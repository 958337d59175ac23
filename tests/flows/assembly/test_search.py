"""The search flow's parts, made of the settings."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from flows.assembly import query
from flows.assembly.search import PolicyFiles, _policy_check, _warn, by_chat_model, embeddings, picking, reranking
from operators.clients.rerankers import Capacity
from operators.query.field_map import FieldMap
from schemas.errors import ConfigError
from schemas.settings import Settings, load
from tests.operators.samples import METRICS

UNASKED: Any = SimpleNamespace(capacity=Capacity(), model="m", reads="text")
CHAT = {"kind": "openai", "url": "http://c", "model": "m", "timeout": 7.0, "max_concurrency": 3}


def configured(**sections: Any) -> Settings:
    """Settings of these sections."""
    return load(None, {"qdrant": {"url": "http://q"}, **sections})


@pytest.mark.parametrize(
    ("rerank", "timeout", "calls"),
    [
        ({"timeout": 1.5}, 1.5, 16),
        ({"timeout": 1.5, "max_concurrency": 0}, 1.5, 0),
        ({"kind": "vllm_score", "url": "http://r"}, 2.0, 2),
        ({"kind": "onnx", "path": "/model"}, 2.0, 1),
        ({"kind": "chat"}, 7.0, 3),
    ],
)
def test_a_reranker_has_its_own_bounds(rerank: dict[str, Any], timeout: float, calls: int) -> None:
    """Time and calls in flight are the section's, or what suits the kind; a chat model has the chat section's."""
    stage = reranking(configured(rerank=rerank, chat=CHAT), UNASKED, METRICS)
    assert stage is not None
    bounds = stage.bounds
    assert (bounds.timeout, bounds.max_concurrency) == (timeout, calls)


def test_the_stages_that_ask_a_chat_model_have_its_bounds() -> None:
    """The pick and the anchor are one completion a query, for as long as the chat section says."""
    settings = configured(rerank={"timeout": 1.0}, chat=CHAT)
    pick = picking(settings, UNASKED, METRICS)
    assert pick is not None
    for bounds in (pick.bounds, by_chat_model(settings, UNASKED).bounds):
        assert (bounds.timeout, bounds.max_batch, bounds.max_concurrency) == (7.0, 1, 3)


def test_tiers_of_decay_that_nothing_reads_are_logged() -> None:
    """At the start, by their paths, unless a profile that decays has a recipe that reads them."""
    tiers = {"decay": {"destinations": {"default": {"enabled": True}}}}
    for profiles, logged in (({}, True), ({"fast": {"recipe": "decay"}}, True), ({"deep": {"recipe": "decay"}}, False)):
        with capture_logs() as lines:
            _warn(configured(profiles=profiles, **tiers))
        assert ["decay.destinations.default"] * logged == [name for line in lines for name in line.get("tiers", ())]


def test_fields_of_policies_are_those_that_a_collection_has() -> None:
    """A field that another tool keeps in strings is refused with its path, groups included."""
    eq = {"op": "eq", "value": "red"}
    sources = {"web": {"filters": [{"any_of": [{"field": "meta.colour", **eq}, {"field": "size", **eq}]}]}}
    settings = configured(policies={"default": {"filters": [{"field": "lang", **eq}]}, "sources": sources})
    _policy_check(settings, FieldMap())
    with pytest.raises(ConfigError, match=r"policies\.sources\.web\.filters\.0\.any_of\.1\.field: its values are"):
        _policy_check(settings, FieldMap({"size": "_node_content#size"}))


def test_policies_of_files_change_while_the_flow_runs(tmp_path: Path) -> None:
    """Those that cannot be used, by a collection of another tool either, leave all as it was; it is said once."""
    fields = FieldMap({"size": "_node_content#size"})
    file, wrong = tmp_path / "a.json", {"a": {"filters": [{"field": "size", "op": "eq", "value": 1}]}}
    file.write_text(json.dumps(wrong))
    with pytest.raises(ConfigError, match=r"policies\.files: a\.filters\.0\.field: its values are inside of strings"):
        _policy_check(configured(policies={"files": [str(file)]}), fields)
    file.write_text('{"a": {"read": false}}')
    settings = configured(policies={"files": [str(file)]})
    files = PolicyFiles(settings.policies, _policy_check(settings, fields), METRICS)

    def read_thrice() -> tuple[list[str], object]:
        with capture_logs() as lines:
            for _ in range(3):
                files.reload()
        [metric] = METRICS.policies_refused.collect()
        return [line["event"] for line in lines], metric.samples[0].value

    assert read_thrice() == ([], 0.0)
    file.write_text(json.dumps(wrong))
    assert read_thrice() == (["policies cannot be read, and stay what they were"], 1.0)
    assert not settings.policies.policy_for("a").read
    file.write_text('{"a": {}}')
    assert read_thrice() == (["policies were read"], 0.0)
    assert settings.policies.policy_for("a").read


def test_nothing_is_kept_where_nothing_may_be() -> None:
    """`cache_mib: 0` keeps no embedding."""
    assert embeddings(configured(embedder={"cache_mib": 0}), UNASKED, METRICS, tokens=False).cached is None
    assert embeddings(configured(), UNASKED, METRICS, tokens=False).cached is not None


def test_an_experiment_that_mixes_rankings_needs_a_secret() -> None:
    """The search flow and `check` say so; the other flows and commands have no use for it, and load the settings."""
    mixed = configured(
        kafka={"topics": {"experiments": "e"}}, experiments={"words": {"recipe": "rrf", "mode": "interleave"}}
    )
    with pytest.raises(ConfigError, match=r"experiments\.words\.mode: interleave: .*set cursor\.signing_secret"):
        query.tokens(mixed)
    shadow = configured(kafka={"topics": {"experiments": "e"}}, experiments={"words": {"recipe": "rrf"}})
    assert query.tokens(shadow) is None
