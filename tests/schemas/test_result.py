"""The result model: the closed lists and bounds that every answer is held to."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from schemas.errors import (
    BackendBadResponse,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    DeadLetterClass,
    Reason,
)
from schemas.result import DenialCode, LegStatus, ResultEvent, RetrievalStage, Status


def result(**changes: Any) -> dict[str, Any]:
    """A result event with one hit."""
    hit = {
        "id": "d",
        "rank": 1,
        "score": 0.5,
        "text": "t",
        "payload": {"a": [1]},
        "legs": {"vector": {"rank": 0, "score": -0.25}},
    }
    event = {
        "query_id": "q",
        "result_id": "0" * 32,
        "status": "ok",
        "results": [hit],
        "total": 1,
        "total_relation": "eq",
        "has_more": True,
        "next_cursor": "c",
        "retrieval_stage": "semantic",
        "backends_used": ["vector"],
        "profile": "balanced",
        "semantic_unavailable": False,
        "legs": [{"name": "vector", "status": "ok", "reason": None, "candidates": 1}],
        "degraded": [],
        "warnings": [],
        "removed_by_firewall": 0,
        "denied": {"code": "policy_denied", "reason": "no"},
        "debug": {
            "stages_hit": ["policy", "vector"],
            "candidates_per_stage": {"vector": 1},
            "per_stage_latency_ms": {"policy": 0.5, "vector": 2.0},
            "cache_hit": True,
            "cache_type": "exact",
            "decay": {"mode": "exponential", "half_life_days": 7.0, "over_sample_factor": 5.0},
            "total_latency_ms": 3.0,
        },
        "provenance": {
            "version": "0.2.0",
            "config_hash": "0" * 64,
            "recipe": "hybrid",
            "recipe_hash": "1" * 64,
            "models": {"embedder": None, "reranker": None},
            "index_watermark": ["0:17"],
            "now": "2024-01-01T00:00:00.000Z",
            "source": {"topic": "queries", "partition": 0, "offset": 0},
        },
        "metadata": None,
    }
    return {**event, **changes}


OPTIONAL = {"retrieval_stage", "denied", "debug", "metadata"}


def test_a_whole_result_validates() -> None:
    """The example has every field, and comes back from JSON as it was."""
    event = ResultEvent.model_validate(result())
    assert ResultEvent.model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize("name", sorted(set(result()) - OPTIONAL))
def test_every_field_must_be_there(name: str) -> None:
    """A result without one of its fields isn't one; only what is there for who asks, or is refused, may be missing."""
    with pytest.raises(ValidationError, match=name):
        ResultEvent.model_validate({field: value for field, value in result().items() if field != name})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("status",), "good"),
        (("total",), -1),
        (("surprise",), 1),
        (("schema_version",), 2),
        (("degraded",), [{"stage": "moon", "reason": "timeout"}]),
        (("degraded",), [{"stage": "fetch", "reason": "tired"}]),
        (("legs",), [{"name": "vector", "status": "late", "candidates": 0}]),
        (("results", 0, "rank"), 0),
        (("results", 0, "score"), "NaN"),
        (("results", 0, "score"), float("inf")),
        (("results", 0, "legs", "vector", "rank"), -1),
        (("results", 0, "surprise"), 1),
        (("results", 0, "id"), 5.5),
        (("reranked",), False),
        (("provenance", "recipe_hash"), None),
        (("provenance", "recipe"), None),
        (("profile",), None),
        (("status",), "invalid"),
        (("error",), {"class": "invalid", "field": "text", "reason": "why"}),
        (("provenance", "index_watermark"), "0:17"),
        (("retrieval_stage",), "cache"),
        (("removed_by_firewall",), -1),
        (("denied", "code"), "no"),
        (("denied", "allowed"), []),
        (("debug", "cache_type"), "disk"),
        (("debug", "per_stage_latency_ms", "policy"), -1.0),
        (("debug", "candidates_per_stage", "vector"), 0.5),
        (("debug", "decay", "mode"), "linear"),
    ],
)
def test_what_is_no_result(path: tuple[Any, ...], value: object) -> None:
    """Values outside the closed lists and bounds, and fields that aren't the contract's, are refused."""
    event = result()
    place: Any = event
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        ResultEvent.model_validate(event)


def refused(**changes: Any) -> dict[str, Any]:
    """The result of a query that was refused."""
    event = result(status="invalid", profile=None, results=[], total=0, has_more=False, next_cursor=None)
    del event["denied"], event["debug"]
    event["provenance"] |= {"recipe": None, "recipe_hash": None}
    error = {"class": "cursor_invalid", "field": "cursor", "reason": "cursor: it continues another query"}
    return {**event, "error": error, **changes}


def test_a_refusal_validates() -> None:
    """A result `invalid` says why under the names of the contract, and comes back from JSON as it was."""
    event = ResultEvent.model_validate(refused())
    assert orjson.loads(event.model_dump_json())["error"] == refused()["error"]
    assert ResultEvent.model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize(
    "error",
    [
        None,
        {"class": "tired", "field": None, "reason": "why"},
        {"class": "invalid", "reason": "why"},
        {"class": "invalid", "field": None},
        {"class": "invalid", "field": None, "reason": "w" * 513},
        {"class": "invalid", "field": None, "reason": "why", "stage": "decode"},
        {"class_": "invalid", "field": None, "reason": "why"},
    ],
)
def test_what_is_no_refusal(error: object) -> None:
    """A refusal has an error of exactly three parts, of a class of the closed list, with a reason that is cut."""
    with pytest.raises(ValidationError):
        ResultEvent.model_validate(refused(error=error))


def test_the_closed_lists() -> None:
    """Consumers switch over these: adding or renaming one is a change of the contract."""
    assert [status.value for status in Status] == [
        "invalid",
        "denied",
        "expired",
        "failed",
        "partial",
        "unranked",
        "ok",
    ]
    assert {stage.value for stage in RetrievalStage} == {
        "policy",
        "fast_path",
        "exact_cache",
        "semantic_cache",
        "structured",
        "semantic",
        "hybrid_merge",
    }
    assert [code.value for code in DenialCode] == [
        "source_not_permitted_to_read",
        "destination_not_allowed",
        "operation_not_allowed",
        "retrieval_mode_not_allowed",
        "policy_denied",
        "retrieval_firewall_denied",
    ]
    assert {kind.value for kind in DeadLetterClass} == {
        "not_json",
        "schema",
        "invalid",
        "too_large",
        "unsupported_version",
        "vector_dimension",
        "cursor_invalid",
        "cursor_expired",
        "not_found",
        "internal",
    }
    assert [status.value for status in LegStatus] == ["ok", "failed", "timeout", "skipped"]
    assert {reason.value for reason in Reason} == {
        "timeout",
        "unavailable",
        "bad_response",
        "unauthorized",
        "no_collection",
        "refused",
        "deadline",
        "no_embedder",
        "no_context",
        "no_sparse_vector",
        "no_terms",
        "no_token_vectors",
        "no_vector",
        "profile",
        "recipe",
        "too_large",
    }


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BackendTimeout("x"), Reason.TIMEOUT),
        (BackendUnavailable("x"), Reason.UNAVAILABLE),
        (BackendBadResponse("x", 400), Reason.BAD_RESPONSE),
    ],
)
def test_a_backends_error_names_its_reason(error: BackendError, reason: Reason) -> None:
    """Each kind of failure is reported as itself."""
    assert error.reason is reason
