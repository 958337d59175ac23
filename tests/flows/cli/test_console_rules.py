"""The page of rules without a flow: rules in words, and the way out where the console can put none."""

from typing import Any, Final

import pytest

from bench.ports import free_port
from flows.cli.rules import RuleBook, WrittenRule, describe_rule
from schemas.errors import FatalDelivery, InputError
from schemas.rule import Rule
from schemas.settings import load

BURY: Final = WrittenRule(namespace="n", id="r", text='{"then": {"bury": {"ids": ["a"]}}}')


def book(**topics: str) -> RuleBook:
    """The rules of a broker that does not answer."""
    kafka = {"bootstrap_servers": f"127.0.0.1:{free_port()}", "topics": topics}
    return RuleBook(load(None, {"qdrant": {"url": "http://127.0.0.1:9"}, "kafka": kafka}))


@pytest.mark.parametrize(
    ("rule", "when", "then"),
    [
        (
            {"then": {"synonyms": {"words": ["tv", "television"]}, "pin": [{"id": "a", "position": 2}]}},
            ["every search"],
            ["synonyms: tv = television", "pin a at 2"],
        ),
        (
            {
                "when": {"exact": "cheap tv", "sources": ["web", "app"], "until": "2030-01-01T00:00:00Z"},
                "then": {"synonyms": {"from": ["tv"], "to": ["flat screen"], "weight": 1}},
            },
            ["the text is “cheap tv”", "the source is web or app", "until 2030-01-01T00:00:00Z"],
            ["synonyms: tv → flat screen"],
        ),
        (
            {
                "when": {"contains": "cheap", "languages": ["en"], "from": 5},
                "then": {
                    "rewrite": {
                        "filters": [{"field": "price", "op": "range", "value": {"lt": 9}}],
                        "order_by": {"field": "price"},
                    }
                },
            },
            ["the text has “cheap”", "the language is en", "from 5"],
            ["in place of the words: price range lt 9 and order by price, asc"],
        ),
        (
            {
                "then": {
                    "bury": {"ids": ["x"], "filters": [{"any_of": [{"field": "a", "op": "exists", "value": True}]}]},
                    "boost": {"field": "sold", "weight": -2},
                }
            },
            ["every search"],
            ["bury x and a group of filters", "boost by sold, weight -2"],
        ),
    ],
)
def test_a_rule_is_put_into_words(rule: dict[str, Any], when: list[str], then: list[str]) -> None:
    """Each condition and each effect has its own."""
    Rule.model_validate(rule)
    assert describe_rule(rule) == {"rule": rule, "when": when, "then": then}


def test_without_a_topic_there_are_no_rules() -> None:
    """The page says so, and what is put hears of the setting."""
    assert book().to_view() == {"topic": None, "rules": [], "refused": []}
    with pytest.raises(InputError, match=r"kafka\.topics\.rules: not set"):
        book().put(BURY)


def test_a_rule_that_cannot_be_put_has_another_way() -> None:
    """The error says what the broker does not do, and which command whoever may do it runs."""
    with pytest.raises(FatalDelivery, match=r"no Kafka broker answers .*: rankstream rules put --file rules\.jsonl"):
        book(rules="rules").put(BURY)
