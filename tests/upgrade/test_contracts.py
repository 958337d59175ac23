"""The contracts on the wire change by additions only, as long as their schema version is the same.

`tests/data/schemas-0.1.0` are the JSON Schemas that the version before printed; the first test has it do so again.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.schemas.test_contracts import KEPT
from tests.upgrade.before import SCHEMAS, WHEEL, environment
from tests.upgrade.contracts import Difference, difference

FROZEN: dict[str, Any] = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in SCHEMAS.glob("*.json")}
NOW: dict[str, Any] = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in KEPT.glob("*.json")}


def not_taken(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The events that were valid, and are no more."""
    return [str(each) for each in difference(before, now)]


def not_readable(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The breaches of the version before's reliance on an event: a field that is gone or may be
    missing, a value that never comes any more, or one that it does not know. New fields are for those who ask for them.
    """
    gone = [f"gone: {each}" for each in difference(before, now) if each.kind != "absence of"]
    new = [f"new: {each}" for each in difference(now, before) if each.kind != "field"]
    return gone + new


ASKED_FOR = {
    "new: legs[].reason: value no_context",
    "new: degraded[].reason: value no_context",
    "new: degraded[].stage: value encode",
    "new: degraded[].stage: value fuzzy",
    "new: degraded[].stage: value keyword_context",
    "new: degraded[].stage: value learned",
    "new: degraded[].stage: value vector_context",
    "new: degraded[].stage: value similarity",
    "new: degraded[].stage: value neighbours",
    "new: degraded[].stage: value pinned",
    "new: degraded[].stage: value facets",
    "new: total_relation: value nearest",
    "new: error.class: value schema",
    "new: error.class: value not_found",
    "new: results[].id: type integer",
}
"""Values that the version before does not know, and that only a query gets which asks for what is new, or comes in a
form that is new; `not_found` is of documents alone, ids are whole numbers where a setting says so, and documents are
pinned where a topic of rules is named."""


@pytest.mark.slow
def test_the_version_before_printed_them(tmp_path: Path) -> None:
    """The frozen schemas are those of the wheel."""
    command = [sys.executable, "-m", "flows.cli", "schema", "--write", str(tmp_path)]
    subprocess.run(command, env={**os.environ, **environment(WHEEL)}, check=True, capture_output=True)
    assert {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in FROZEN} == FROZEN
    assert FROZEN.keys() == {"query", "document", "result", "dead-letter"}


@pytest.mark.parametrize("name", ["query", "document"])
def test_what_was_taken_is_taken(name: str) -> None:
    """Producers need no change: each query and document that the version before took is taken."""
    assert not_taken(FROZEN[name], NOW[name]) == []


@pytest.mark.parametrize("name", ["result", "dead-letter"])
def test_readers_need_no_change(name: str) -> None:
    """Each field of a result and of a dead letter is still there with the values that it had; new ones may come. A
    value that is new is one of ASKED_FOR.
    """
    assert set(not_readable(FROZEN[name], NOW[name])) <= ASKED_FOR


def changed(name: str, change: Callable[[Any], object]) -> dict[str, Any]:
    """A frozen schema with a change that a version could make."""
    schema: dict[str, Any] = json.loads(json.dumps(FROZEN[name]))
    change(schema)
    return schema


def fields(schema: Any, model: str | None = None) -> Any:
    """The fields of the event, or of a part of it."""
    return (schema if model is None else schema["$defs"][model])["properties"]


NEW = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}

BREAKING_READERS: dict[str, Callable[[Any], object]] = {
    "gone: total: field total": lambda s: fields(s).pop("total"),
    "gone: results[].legs.*.score: field score": lambda s: fields(s, "LegRank").pop("score"),
    "new: the event: absence of total": lambda s: s["required"].remove("total"),
    "new: results[]: absence of rank": lambda s: s["$defs"]["Hit"]["required"].remove("rank"),
    "new: total: type null": lambda s: fields(s).update(total={"anyOf": [fields(s)["total"], {"type": "null"}]}),
    "gone: next_cursor: type null": lambda s: fields(s).update(next_cursor={"type": "string"}),
    "gone: query_id: type string": lambda s: fields(s).update(query_id={"type": "integer"}),
    "new: status: value tired": lambda s: s["$defs"]["Status"]["enum"].append("tired"),
    "gone: degraded[].reason: value deadline": lambda s: s["$defs"]["Reason"]["enum"].remove("deadline"),
    "gone: removed_by_firewall: values below the minimum 1": lambda s: fields(s)["removed_by_firewall"].update(
        minimum=1
    ),
    "new: error.reason: values above the maxLength 512": lambda s: fields(s, "Refused")["reason"].pop("maxLength"),
}

BREAKING_PRODUCERS: dict[str, Callable[[Any], object]] = {
    "cursor: field cursor": lambda s: fields(s).pop("cursor"),
    "the event: absence of source": lambda s: s["required"].append("source"),
    "query_id: values above the maxLength 10": lambda s: fields(s)["query_id"].update(maxLength=10),
    "text: type null": lambda s: fields(s).update(text={"type": "string"}),
    "filters[].op: value prefix": lambda s: fields(s, "Prefix")["op"].update(const="begins"),
}


@pytest.mark.parametrize("what", sorted(BREAKING_READERS))
def test_a_change_that_breaks_readers_is_seen(what: str) -> None:
    """Whatever a reader may rely on is named if it changes."""
    assert what in not_readable(FROZEN["result"], changed("result", BREAKING_READERS[what]))


@pytest.mark.parametrize("what", sorted(BREAKING_PRODUCERS))
def test_a_change_that_breaks_producers_is_seen(what: str) -> None:
    """Whatever a producer may send is named if it is refused."""
    assert what in not_taken(FROZEN["query"], changed("query", BREAKING_PRODUCERS[what]))


def test_additions_are_free() -> None:
    """A new field, also one that is always there, breaks no reader; one that may be left out breaks no producer."""

    def added(schema: Any) -> None:
        fields(schema)["extra"] = NEW
        fields(schema, "Hit" if "Hit" in schema["$defs"] else "Eq")["extra"] = NEW

    def always(schema: Any) -> None:
        fields(schema)["extra"] = NEW
        schema["required"].append("extra")

    assert not_readable(FROZEN["result"], changed("result", added)) == []
    assert not_readable(FROZEN["result"], changed("result", always)) == []
    assert not_taken(FROZEN["query"], changed("query", added)) == []
    assert not_taken(FROZEN["query"], changed("query", always)) == ["the event: absence of extra"]


def test_descriptions_may_change() -> None:
    """Neither the words nor the order of a schema are promised."""
    result = changed("result", lambda s: s.update(description="other words", title="Other"))
    result["properties"] = dict(reversed(result["properties"].items()))
    assert difference(FROZEN["result"], result) == [] == difference(result, FROZEN["result"])


def test_more_values_are_seen_in_one_direction_only() -> None:
    """A wider bound takes what was taken, and more."""
    wider = changed("query", lambda s: fields(s)["query_id"].pop("maxLength"))
    assert difference(FROZEN["query"], wider) == []
    assert difference(wider, FROZEN["query"]) == [Difference("query_id", "values above the", "maxLength 512")]
