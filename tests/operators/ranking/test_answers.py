"""The stage answers: their share of a text, what they lose, and what the document behind them gains."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.content import share_of_questions
from operators.ranking.run import Facts
from tests.operators.ranking.pools import rank, recipe, vector


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("Where was the kitten?", 1.0),
        ("Behind the bakery.", 0.0),
        ("", 0.0),
        ("?", 0.0),
        ("Yes! Who else", 0.0),
        ("abcd. efgh?", 5 / 9),
        ("abcd\nefg？\nhij؟!", 6 / 10),
    ],
)
def test_the_share_is_that_of_the_characters_in_questions(text: str, share: float) -> None:
    """Each sentence and each line counts by its length, whatever the signs behind it."""
    assert share_of_questions(text) == pytest.approx(share)


@given(st.text("ab ?？.!\n؟"))
def test_a_text_without_questions_has_none_of_it(text: str) -> None:
    """It is from 0 to 1, and 0 where nothing asks; more told behind it makes it no greater."""
    share = share_of_questions(text)
    assert 0 <= share <= 1
    assert not {*"?？؟"}.isdisjoint(text) or share == 0
    assert share_of_questions(f"{text}\nabc.") <= share


ASKED: Final = Facts(text="Where is the kitten?")
PAYLOADS: Final[dict[str, dict[str, Any]]] = {
    "a": {"text": "Where is it?", "_neighbours": ["a", "b"]},
    "b": {"text": "It is here.", "_neighbours": ["a", "b", "c"]},
    "c": {"text": "Why?", "_neighbours": ["b", "c", "d"]},
    "d": {"_neighbours": ["c", "d"]},
}


def test_a_question_loses_and_the_document_behind_it_gains() -> None:
    """It loses the weight of its score, also of one below 0, of which nobody gains."""
    legs = [vector(("a", 0.8), ("b", 0.5), ("c", -0.5), ("d", -0.6), payloads=PAYLOADS)]
    ranked = rank(recipe("vector", {"answers": {"weight": 0.5, "passed": 0.25}}), legs, ASKED).candidates
    assert [(each.id, each.score) for each in ranked] == [("b", 0.7), ("a", 0.4), ("d", -0.6), ("c", -0.75)]


def test_a_document_gains_by_no_question_that_is_not_found_or_shown() -> None:
    """Nor without a context: then what asks loses, and that is all."""
    asked = recipe("vector", {"answers": {"weight": 0.5, "passed": 0.25}})
    alone = {id_: {"text": payload.get("text")} for id_, payload in PAYLOADS.items()}
    for payloads, expected in ((PAYLOADS, [0.5, -0.6, -0.75]), (alone, [0.5, -0.6, -0.75])):
        legs = [vector(("b", 0.5), ("c", -0.5), ("d", -0.6), payloads=payloads)]
        assert [each.score for each in rank(asked, legs, ASKED).candidates] == expected
    legs = [vector(("a", 0.8), ("b", 0.5), payloads=PAYLOADS)]
    assert [each.score for each in rank(asked, legs, replace(ASKED, visible=lambda _: {})).candidates] == [0.8, 0.5]
    assert [each.score for each in rank(asked, legs, Facts(text="lost keys")).candidates] == [0.8, 0.5]
