"""Expressions as filters: the JSON by hand, and what the engine takes."""

from collections.abc import Iterator, Mapping
from typing import Any as Json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.query.expression_conditions import exclusions, keyword_conditions, open_endings
from operators.text.expression import DEEPEST, MOST, Expression, parse
from operators.text.lexer import Leaf
from schemas.document import COLUMNS
from tests.operators.text import expressions as drawn
from tests.operators.text.keyword_index import Index, index

NAMES = {"title": "title", "text": "text", "content": "text"}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Two documents."""
    with index(tmp_path_factory.mktemp("index")) as made:
        made.write([("Blue lantern", "hung high"), ("Lantern", "blue and high")])
        yield made


def condition(text: str) -> Mapping[str, Json]:
    """The condition of an expression's text that has no endings."""
    return keyword_conditions(expression(text), COLUMNS, {})


def expression(text: str) -> Expression:
    """The expression that a text is."""
    parsed = parse(text, NAMES)
    assert parsed.expression is not None
    return parsed.expression


def levels(value: Json) -> int:
    """The depth of a JSON value."""
    if isinstance(value, dict | list):
        return 1 + max(map(levels, value.values() if isinstance(value, dict) else value), default=0)
    return 0


def test_a_filter_by_hand() -> None:
    """Words, phrases and prefixes on the index of each column, or of theirs; operators as clauses."""
    assert condition('title:"Blue lantern" AND (high OR text:LAN*) NOT content:hung') == {
        "must": [
            {"key": "title", "match": {"phrase": "Blue lantern"}},
            {
                "must": [
                    {
                        "should": [
                            {
                                "should": [
                                    {"key": "title", "match": {"text": "high"}},
                                    {"key": "text", "match": {"text": "high"}},
                                ]
                            },
                            {"key": "_text_words", "match": {"prefix": "lan"}},
                        ]
                    }
                ],
                "must_not": [{"key": "text", "match": {"text": "hung"}}],
            },
        ]
    }


def test_the_endings_of_a_phrase_by_hand() -> None:
    """Documents that may hold one are those with the whole words and the prefix; each ending makes a phrase."""
    asked = expression('text:"the blue LAN"* OR title:high')
    ending = (Leaf(("the", "blue"), "LAN", ("text",)), "text")
    assert open_endings(asked, COLUMNS) == {
        ending: {
            "must": [
                {"key": "text", "match": {"phrase": "the blue"}},
                {"key": "_text_words", "match": {"prefix": "lan"}},
            ]
        }
    }
    high = {"key": "title", "match": {"text": "high"}}
    assert keyword_conditions(asked, COLUMNS, {ending: ["lantern", "land"]}) == {
        "should": [
            {
                "should": [
                    {"key": "text", "match": {"phrase": "the blue lantern"}},
                    {"key": "text", "match": {"phrase": "the blue land"}},
                ]
            },
            high,
        ]
    }
    assert keyword_conditions(asked, COLUMNS, {ending: []}) == {"should": [{"has_id": []}, high]}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"blue lan"*', {0}),
        ('"blue AND hi" *', {1}),
        ('"lantern hu"*', set()),
        ("-title:lantern", set()),
        ("-text: blue", {0}),
        ("-{title text}: blue", set()),
        ("{title text}: blue", {0, 1}),
        ("title:(blue OR high)", {0}),
        ('"blue lantern"', {0}),
        ('"lantern hung"', set()),
        ("lantern AND hung", {0}),
        ("title:blue", {0}),
        ("text:blue", {1}),
        ("LAN*", {0, 1}),
        ("text:lan*", set()),
        ("high NOT hung", {1}),
        ('""', set()),
        ('high NOT ""', {0, 1}),
    ],
)
def test_what_expressions_match(documents: Index, text: str, found: set[int]) -> None:
    """A phrase is in one column, a column is the configured field, case says nothing, no words match nothing."""
    assert documents.matches([parse(text, NAMES)]) == [found]


@pytest.mark.parametrize(
    ("text", "excluded"),
    [
        ("lantern NOT red", ["red"]),
        ("lantern AND NOT red NOT blue", ["red", "blue"]),
        ("(lantern NOT red) (huts NOT green)", ["red", "green"]),
        ("lantern OR (huts NOT red)", []),
        ("lantern NOT (red OR green)", ["red OR green"]),
        ("(lantern NOT red) OR huts", []),
        ("NOT red", ["red"]),
        ("lantern AND red", []),
    ],
)
def test_what_no_match_has(text: str, excluded: list[str]) -> None:
    """Exclusions are those from the whole expression, and none under an OR of which a part excludes nothing."""
    alone = [condition(f"{each} AND zzz")["must"][0] if " " not in each else condition(each) for each in excluded]
    assert exclusions(expression(text), COLUMNS) == alone


def test_an_alternative_excludes_what_all_its_parts_exclude() -> None:
    """Of (a NOT c) OR (b NOT c) no match has c."""
    [excluded] = exclusions(expression("(lantern NOT red) OR (huts NOT red)"), COLUMNS)
    red = exclusions(expression("lantern NOT red"), COLUMNS)
    assert excluded == {"must": [{"should": red}, {"should": red}]}


def test_an_open_phrase_excludes_all_that_may_hold_it() -> None:
    """No endings are counted for the legs that don't search by words: more is excluded rather than less."""
    [excluded] = exclusions(expression('lantern NOT title:"red li"*'), COLUMNS)
    assert excluded == {"must": [condition("title:red AND zzz")["must"][0], condition("title:li* AND zzz")["must"][0]]}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(drawn.texts, min_size=5, max_size=30))
def test_any_text_is_a_filter_that_the_engine_takes(documents: Index, texts: list[str]) -> None:
    """Whatever is in it, the leg finds what the filter matches."""
    read = [parsed for text in texts if (parsed := parse(text, NAMES)).expression is not None]
    assert documents.leg(read) == documents.matches(read)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(drawn.expressions, min_size=5, max_size=30))
def test_any_expression_is_a_filter_that_the_engine_takes(documents: Index, expressions: list[Expression]) -> None:
    """Spelled out it is read, written and answered, unless too many of its phrases end in a prefix."""
    every = (parse(drawn.spelled(each), NAMES) for each in expressions)
    read = [parsed for parsed in every if parsed.expression is not None]
    assert documents.leg(read) == documents.matches(read)


def test_the_largest_filters_are_answered(documents: Index) -> None:
    """As deep and as many words as an expression can have, in less than 100 levels of JSON, search and all."""
    groups = DEEPEST // 2 - 1
    deepest = "(x OR high NOT " * groups + "pre*" + ")" * groups
    largest = " OR ".join(["high"] * MOST)
    assert levels(condition(deepest)) + levels([{"searches": [{"filter": {"must": []}}]}]) < 100
    assert documents.matches([parse(largest, NAMES), parse(deepest, NAMES)])[0] == {0, 1}
