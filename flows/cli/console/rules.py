"""The page of rules: those of the topic in words, and a rule that is checked and put as `rankstream rules put` does.

A rule is tried by a column of the page, whose query has it: see `rules` of a query event.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from flows.assembly.delivery import connect
from flows.assembly.query import rule_table
from flows.cli.rules import put_rules, read_topic, to_rule_record
from schemas.errors import DeliveryError, FatalDelivery, InputError, invalid
from schemas.event import json_object
from schemas.fields import Strict
from schemas.rule import MAX_RULE_BYTES
from schemas.settings import Settings

_REFUSED = 20
"""Records of the topic that are no rule, of which the page says why, at most."""


class WrittenRule(Strict):
    """A rule as it is written on the page: its JSON, without namespace and id."""

    namespace: str
    id: str
    text: str

    def read(self) -> tuple[bytes, bytes | None]:
        """The key and the value of its message. Raises InputError for anything but a JSON object."""
        return to_rule_record(
            {**json_object(self.text.encode(), MAX_RULE_BYTES), "namespace": self.namespace, "id": self.id}
        )


@dataclass(frozen=True)
class RuleBook:
    """The rules of these settings' topic."""

    settings: Settings

    def to_view(self) -> dict[str, Any]:
        """Each rule as it is written, and in words; records that are no rule with the reason. Raises DeliveryError."""
        topic, table, refused = self.settings.kafka.topics.rules, rule_table(self.settings), list[str]()
        for place, key, value in read_topic(connect(self.settings.kafka), topic) if topic is not None else ():
            try:
                table.put(key, value)
            except InputError as error:
                refused.append(f"{place}: {error}")
        rules = [{"namespace": name, "id": each.id, **describe_rule(orjson.loads(each.value))} for name, each in table]
        return {"topic": topic, "rules": rules, "refused": refused[-_REFUSED:]}

    def check(self, written: WrittenRule) -> dict[str, Any]:
        """The rule as it is written, and in words. Raises InputError for what is no rule."""
        key, value = written.read()
        if value is None:
            raise invalid("then", "effects are expected", None)
        rule_table(self.settings).put(key, value)
        return describe_rule(orjson.loads(value))

    def put(self, written: WrittenRule) -> dict[str, Any]:
        """Put the rule on the topic, or remove it if its `then` is null. Raises InputError and DeliveryError."""
        topic = self.settings.kafka.topics.rules
        if topic is None:
            raise invalid("kafka.topics.rules", "not set, so there are no rules; name a compacted topic", None)
        key, value = written.read()
        rule_table(self.settings).put(key, value)
        try:
            put_rules(connect(self.settings.kafka), topic, [("", key, value)])
        except DeliveryError as error:
            why = f"{error}; whoever may write to {topic} can put it in a file: rankstream rules put --file rules.jsonl"
            raise FatalDelivery(why) from error
        return {"removed": value is None}


def describe_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A valid rule, its conditions, and its effects, in words."""
    return {"rule": rule, "when": [*_conditions(rule.get("when") or {})], "then": [*_effects(rule["then"])]}


def _conditions(when: Mapping[str, Any]) -> Iterator[str]:
    phrases = {"exact": "the text is “{}”", "contains": "the text has “{}”", "sources": "the source is {}"}
    phrases |= {"languages": "the language is {}", "from": "from {}", "until": "until {}"}
    said = {name: value for name, value in when.items() if value is not None}
    yield from (phrases[name].format(" or ".join(_several(value))) for name, value in said.items())
    if not said:
        yield "every search"


def _effects(then: Mapping[str, Any]) -> Iterator[str]:
    if synonyms := then.get("synonyms"):
        one_way = f"{', '.join(synonyms.get('from') or ())} → {', '.join(synonyms.get('to') or ())}"
        yield f"synonyms: {' = '.join(synonyms['words']) if synonyms.get('words') else one_way}"
    yield from (f"pin {pin['id']} at {pin['position']}" for pin in then.get("pin") or ())
    if bury := then.get("bury"):
        yield f"bury {' and '.join([*map(str, bury.get('ids') or ()), *_filters(bury)])}"
    if boost := then.get("boost"):
        yield f"boost by {boost.get('field') or ' and '.join(_filters(boost))}, weight {boost.get('weight', 0.5)}"
    if rewrite := then.get("rewrite"):
        order = rewrite.get("order_by")
        by = (order.get("field") or f"distance in {order['geo_distance']['field']}") if order else None
        orders = [f"order by {by}, {order.get('direction', 'asc')}"] if order else []
        yield f"in place of the words: {' and '.join([*_filters(rewrite), *orders])}"


def _filters(effect: Mapping[str, Any]) -> Sequence[str]:
    return [*map(put_into_words, effect.get("filters") or ())]


def put_into_words(condition: Any) -> str:
    """A filter in words."""
    if isinstance(condition, Mapping) and "field" in condition:
        return f"{condition['field']} {condition.get('op')} {', '.join(_several(condition.get('value')))}"
    return "a group of filters"


def _several(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name} {each}" for name, each in value.items()]
    return [*map(str, value if isinstance(value, list) else [value])]
