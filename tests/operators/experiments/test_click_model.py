"""The click model: a known bias and attractiveness are found again, and pages are joined with their clicks."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.experiments.click_model import Attractiveness, ClickedPage, Question, fit_clicks, hear, read_pages
from schemas.preference import Click, DraftedResult, PairedRankings, Preference

LOOKS = (1.0, 0.6, 0.35, 0.2)
ATTRACTION = (0.8, 0.5, 0.3, 0.1)
ASKED = Question("n", "garden hose")


def simulate(pages: int, *, shuffled: bool) -> list[ClickedPage]:
    """Pages of four documents of 20 questions, in an order that chance gives, or with the best one last."""
    chance, found = random.Random(3), []
    for page in range(pages):
        documents = [3, 2, 1, 0]
        if shuffled:
            chance.shuffle(documents)
        clicked = {
            str(document)
            for rank, document in enumerate(documents)
            if chance.random() < LOOKS[rank] * ATTRACTION[document]
        }
        found.append(ClickedPage(Question("n", str(page % 20)), [*map(str, documents)], clicked))
    return found


def test_bias_and_attractiveness_are_recovered() -> None:
    """By ranks that chance gives, both within .05; the shares of clicks alone are far off."""
    fixed = ClickedPage(ASKED, [*"0123"], set())
    model = dict(fit_clicks([*simulate(40_000, shuffled=True), fixed]))
    at_ranks = model.pop(ASKED)
    assert [at_ranks[id_].looks for id_ in fixed.documents] == pytest.approx(LOOKS, abs=0.05)
    for documents in model.values():
        found = [documents[str(number)] for number in range(4)]
        assert [each.value for each in found] == pytest.approx(ATTRACTION, abs=0.1)
        assert found[0].looks == pytest.approx(2000 * np.mean(LOOKS), rel=0.1)
    every = [[documents[str(number)].value for number in range(4)] for documents in model.values()]
    assert np.mean(every, axis=0) == pytest.approx(ATTRACTION, abs=0.03)


def test_the_best_document_at_the_last_rank_is_found_where_chance_moves_it() -> None:
    """Shown last most of the time, it has fewer clicks than a worse one has at the second rank; the model sees it."""
    pages = simulate(19_000, shuffled=False) + simulate(1_000, shuffled=True)
    best, worse = (sum(document in page.clicked for page in pages) for document in ("0", "2"))
    assert best < worse
    documents = fit_clicks(pages).values()
    assert all(each["0"].value > each["2"].value for each in documents)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_at_the_first_rank_it_is_the_share_of_clicks(clicked: list[bool]) -> None:
    """A single document is looked at each time, and half an impression more is clicked on as often as the rest."""
    pages = [ClickedPage(ASKED, ["d"], {"d"} if each else set()) for each in clicked]
    assert fit_clicks(pages)[ASKED]["d"].value == pytest.approx(sum(clicked) / len(clicked), abs=1e-3)


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.permutations("abcd"), st.sets(st.sampled_from("abcd")))))
def test_all_values_are_probabilities(drawn: list[tuple[str, list[str], set[str]]]) -> None:
    """Whatever the pages; each document that a question was shown has one, and no more looks than pages."""
    model = fit_clicks(ClickedPage(Question("n", text), page, clicked) for text, page, clicked in drawn)
    assert model.keys() == {Question("n", text) for text, _, _ in drawn}
    for question, documents in model.items():
        shown = sum(text == question.text for text, _, _ in drawn)
        assert documents.keys() == set("abcd")
        assert all(0 <= each.value <= 1 and 0 <= each.looks <= shown + 1e-9 for each in documents.values())


def test_grades_are_tenths() -> None:
    """Below a twentieth a document is not relevant."""
    assert [Attractiveness(value, 1).grade for value in (0.0, 0.04, 0.06, 0.44, 1.0)] == [0, 0, 1, 4, 10]


def comparison(query: str, issued: int, **changed: Any) -> PairedRankings:
    """An interleaved page of two documents."""
    page = [DraftedResult(id="x", side="a"), DraftedResult(id="y", side="b")]
    about: dict[str, Any] = {"experiment": "e", "mode": "interleave", "query_id": query, "namespace": "n"}
    about |= {"issued": issued, "text": "Garden  hose", "a": ["x"], "b": ["y"], "page": page, "overlap": 0.0}
    return PairedRankings(**{**about, "cpu_ms": 1.0, **changed})


def preference(query: str, issued: int, *ids: str, robot: bool = False) -> Preference:
    """A query whose user clicked on these."""
    clicks = [Click(id=id_, rank=0, side="a", actions=["click"]) for id_ in ids]
    about: dict[str, Any] = {"experiment": "e", "query_id": query, "namespace": "n", "issued": issued}
    return Preference(**about, a=len(clicks), b=0, preferred="a", clicks=clicks, robot=robot)


def test_pages_are_joined_with_their_clicks() -> None:
    """A page without a preference was seen without a click, unless its user may still click; a text is one question in
    whatever case; clicks on further pages are none of this page.
    """
    every = [
        comparison("2", 20, text="garden hose"),
        comparison("1", 10),
        comparison("3", 31),
        comparison("4", 15, text=None),
        comparison("5", 15, mode="shadow"),
        comparison("6", 15),
        comparison("7", 12, incomplete=["a"]),
    ]
    heard = [preference("1", 10, "y", "z"), preference("6", 15, "x", robot=True), preference("7", 12, "x")]
    heard += [preference("8", 30, "x")]
    pages, texts, left_out = read_pages(hear(every, heard))
    assert [(question, [*documents], {*clicked} & {*documents}) for question, documents, clicked in pages] == [
        (ASKED, ["x", "y"], {"y"}),
        (ASKED, ["x", "y"], set()),
    ]
    assert texts == {ASKED: "Garden  hose"}
    assert left_out == {"too new": 1, "without a text": 2, "not interleaved": 1, "from robots": 1, "incomplete": 1}
