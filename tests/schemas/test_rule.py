"""Rules as messages: what is a rule, and what is refused, with the field that is wrong."""

import json
from typing import Any

import pytest

from schemas.errors import InputError
from schemas.rule import Rule, read_rule, read_rule_key, rule_key

PIN = {"pin": [{"id": "a", "position": 1}]}


def test_a_rule_has_conditions_and_effects() -> None:
    """Times are read in both forms, and what is not said is missing."""
    said = {"when": {"contains": "tv", "from": "2026-01-01T00:00:00Z", "until": 1767312000}, "then": PIN}
    rule = read_rule(json.dumps(said).encode())
    assert (rule.when.from_, rule.when.until, rule.when.exact) == (1767225600.0, 1767312000.0, None)
    assert rule.then.pin is not None
    assert rule.then.pin[0].id == "a"


def test_whole_numbers_name_documents() -> None:
    """As results have them where documents do."""
    rule = read_rule(json.dumps({"then": {"pin": [{"id": 41193, "position": 1}], "bury": {"ids": [7, "b"]}}}).encode())
    assert rule.then.pin is not None
    assert rule.then.bury is not None
    assert (rule.then.pin[0].id, rule.then.bury.ids) == ("41193", ["7", "b"])


def test_a_key_names_namespace_and_rule() -> None:
    """As the tombstone of a document does."""
    assert read_rule_key(rule_key("acme", "tv")) == ("acme", "tv")


NO_KEYS = [None, b"", b"tv", b'["acme"]', b'["acme",1]', b'["","tv"]', b'{"namespace":"a"}']


@pytest.mark.parametrize("key", [*NO_KEYS, b'["acme", "tv"]', b'["acme","\\u0074v"]', b' ["acme","tv"]'])
def test_another_key_is_refused(key: bytes | None) -> None:
    """The error names the key. One rule has one spelling, for compaction compares bytes."""
    with pytest.raises(InputError, match="namespace and id") as refused:
        read_rule_key(key)
    assert refused.value.field == "key"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({}, "then"),
        ({"then": {}}, None),
        ({"then": PIN, "while": {}}, "while"),
        ({"then": {"pin": []}}, "then.pin"),
        ({"then": {"pin": [{"id": "a", "position": 0}]}}, "then.pin.0.position"),
        ({"then": {"bury": {}}}, "then.bury"),
        ({"then": {"boost": {"weight": 1}}}, "then.boost"),
        ({"then": {"boost": {"field": "price", "half": 0}}}, "then.boost.half"),
        ({"then": {"synonyms": {"words": ["tv"]}}}, "then.synonyms.words"),
        ({"then": {"synonyms": {"from": ["tv"]}}}, "then.synonyms"),
        ({"then": {"synonyms": {"words": ["a", "b"], "from": ["c"], "to": ["d"]}}}, "then.synonyms"),
        ({"then": {"rewrite": {"order_by": {"field": "price"}}}}, None),
        ({"when": {"contains": "a"}, "then": {"rewrite": {}}}, "then.rewrite"),
        ({"when": {"contains": "a", "exact": "a"}, "then": PIN}, "when"),
        ({"when": {"from": 2, "until": 1}, "then": PIN}, "when"),
    ],
)
def test_what_is_no_rule_is_refused(said: dict[str, Any], field: str | None) -> None:
    """The error names the field."""
    with pytest.raises(InputError) as refused:
        read_rule(json.dumps(said).encode())
    assert refused.value.field == field


def test_the_schema_describes_every_field() -> None:
    """With its description."""
    schema = Rule.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    ours = [each for each in models if each.get("title") in {"Rule", "Conditions", "Synonyms", "Pin", "Boost"}]
    assert {"exact", "contains", "sources", "languages", "from", "until"} in [
        each["properties"].keys() for each in ours
    ]
