"""The stages answers and speakers: the messages that ask, that answer, and that others wrote."""

from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.run import Facts
from operators.ranking.turns import find_speakers, share_of_questions
from tests.operators.ranking.payloads import explained
from tests.operators.ranking.pools import rank, recipe, vector
from tests.operators.ranking.recompute import recompute


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


@pytest.mark.parametrize(
    ("payload", "speakers"),
    [
        ({"text": "Ann: I am here."}, {"ann"}),
        ({"text": "Ann Lee: It's at 10:30.\nJosé:\nYes: no"}, {"ann", "josé", "yes"}),
        ({"text": "It was so: she left."}, {"it"}),
        ({"text": "http://example.org"}, set()),
        ({"text": "I told you that she left early: at noon"}, set()),
        ({"text": "10: ten"}, set()),
        ({}, set()),
        ({"text": "Thanks", "title": "Hello", "author": "Ann Lee"}, {"ann", "lee"}),
        ({"text": "Bob: Hi", "from": {"name": "Ann O'Hara"}, "with": ["Zoë"]}, {"bob", "ann", "hara", "zoë"}),
        ({"text": "Hi", "from": "Ann Lee <ann@north.example>", "to": "Bob Ray <bob@north.example>"}, {"ann", "lee"}),
        ({"text": "Hi", "from": "ann@north.example"}, set()),
        ({"text": "Thanks", "namespace": "acme", "_group": "Ann", "size": "XL 42", "why": "It is not for you."}, set()),
    ],
)
def test_a_speaker_is_a_name(payload: dict[str, Any], speakers: set[str]) -> None:
    """The first of up to four words before a colon at the beginning of a line, or the words of a field; folded."""
    assert find_speakers(payload) == speakers


SAID: Final[dict[str, dict[str, Any]]] = {
    "a": {"text": "Ann: I painted a lake."},
    "b": {"text": "Bob: I painted a horse."},
    "c": {"text": "A horse was painted."},
    "d": {"text": "Bob: Nice lake!\nAnn: Thanks."},
}


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("What did Bob paint?", [("b", 0.7), ("c", 0.6), ("d", 0.5), ("a", 0.4)]),
        ("BOB'S horse", [("b", 0.7), ("c", 0.6), ("d", 0.5), ("a", 0.4)]),
        ("What did Bob and Ann paint?", [("a", 0.8), ("b", 0.7), ("c", 0.6), ("d", 0.5)]),
        ("What did Eve paint?", [("a", 0.8), ("b", 0.7), ("c", 0.6), ("d", 0.5)]),
    ],
)
def test_messages_of_others_lose_if_the_query_names_a_speaker(text: str, order: list[tuple[str, float]]) -> None:
    """One of them speaks in a message of several; nobody loses if no message is of somebody whom the query names."""
    legs = [vector(("a", 0.8), ("b", 0.7), ("c", 0.6), ("d", 0.5), payloads=SAID)]
    ranked = rank(recipe("vector", {"speakers": {"weight": 0.5}}), legs, Facts(text=text)).candidates
    assert [(each.id, each.score) for each in ranked] == order


def test_a_field_names_the_speaker() -> None:
    """As the author of an export's messages does."""
    payloads = {"a": {"text": "I painted.", "author": "Ann Lee"}, "b": {"text": "So did I.", "author": "Bob Ray"}}
    legs = [vector(("a", 0.8), ("b", 0.7), payloads=payloads)]
    ranked = rank(recipe("vector", {"speakers": {"weight": 0.5}}), legs, Facts(text="What did Bob do?")).candidates
    assert [(each.id, each.score) for each in ranked] == [("b", 0.7), ("a", 0.4)]


def test_the_speaker_of_a_hidden_text_is_unknown() -> None:
    """A score below 0 falls, too."""
    legs = [vector(("b", 0.7), ("a", -0.8), payloads=SAID)]
    asked = Facts(text="Where is Bob?", explain=True)
    stage = recipe("vector", {"speakers": {"weight": 0.5}})
    ranked = rank(stage, legs, asked)
    assert [each.score for each in ranked.candidates] == [0.7, pytest.approx(-1.2)]
    for each in ranked.candidates:
        assert list(recompute(explained(ranked, each.id)))[-1].recomputed == each.score
    assert [each.score for each in rank(stage, legs, replace(asked, visible=lambda _: {})).candidates] == [0.7, -0.8]
