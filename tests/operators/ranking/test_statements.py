"""The stage statements: the share of questions by hand, and what is bounded by it."""

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


def test_what_tells_goes_before_what_asks() -> None:
    """A question falls by the weight of its score, also of one below 0; what the query may not see does not ask."""
    payloads = {"a": {"text": "Where is it?"}, "b": {"text": "It is here."}, "c": {"text": "Why?"}, "d": {}}
    legs = [vector(("a", 0.8), ("b", 0.6), ("c", -0.5), ("d", -0.6), payloads=payloads)]
    asked = recipe("vector", {"statements": {"weight": 0.5}})
    ranked = rank(asked, legs, Facts()).candidates
    assert [(each.id, each.score) for each in ranked] == [("b", 0.6), ("a", 0.4), ("d", -0.6), ("c", -0.75)]
    blind = rank(asked, legs, Facts(visible=lambda _: {})).candidates
    assert [each.score for each in blind] == [0.8, 0.6, -0.5, -0.6]
