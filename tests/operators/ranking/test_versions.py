"""Versions: of documents that say the same, the one that held at the asked time is first."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.coverage import find_units
from operators.ranking.marks import are_marks, find_matches, marks, read_marks
from operators.ranking.run import NO_WORDS, Facts, Matches, QueryWords, Run, ScoreExplanations
from operators.ranking.versions import find_alike, versions
from operators.text.dates import TemporalExpression
from operators.text.terms import QueryWord
from schemas.document import MARKS
from schemas.recipes.stages import Versions
from tests.operators.ranking.recompute import recompute

NOW: Final = datetime(2025, 6, 1, tzinfo=UTC).timestamp()
TITLE: Final = range(10)
SAID: Final = (*range(20, 26), 30)
PRICED: Final = {"price": dict.fromkeys("abcdx", ("text",))}


def document(id_: str, score: float, created_at: object, title: Sequence[int] = TITLE, **more: Any) -> Candidate:
    """A document with the terms of a title, and with those of a text."""
    own = {MARKS: marks([title, more.pop("text", SAID)]), "created_at": created_at, **more}
    return Candidate(id_, score, {name: value for name, value in own.items() if value is not None})


def order(
    candidates: list[Candidate], text: str = "price", matches: Mapping[str, Any] = MappingProxyType({}), **more: Any
) -> str:
    """Their ids as the stage puts them; all have the word `price`."""
    found = Matches.of_words({**PRICED, **matches})
    words = QueryWords(find_units(found, {each.id for each in candidates}), 1.0, 0.0)
    ranked = versions(candidates, Versions(**more), Run(Facts(now=NOW, text=text, matches=found), words=words))
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)
    return "".join(each.id for each in ranked)


def history() -> list[Candidate]:
    """A fact as it was from 2019, 2021, 2023 and 2024 on, and another one between the last two."""
    years = (("b", 2021), ("a", 2019), ("d", 2024))
    facts = [document(id_, 1.0 - number / 100, f"{year}-02-01T00:00:00Z") for number, (id_, year) in enumerate(years)]
    other = document("x", 0.97, "2025-01-01T00:00:00Z", title=range(50, 60), text=[70, 71])
    return [*facts, other, document("c", 0.96, "2023-02-01T00:00:00Z")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("how much is it", "dcbxa"),
        ("how much was it in 2022", "bacxd"),
        ("how much in 2021", "bacxd"),
        ("price 2020", "abcxd"),
        ("Preis im Jahr 2023", "cbaxd"),
        ("le prix en 2023", "cbaxd"),
        ("price in january 2024", "cbaxd"),
        ("price in february 2024", "dcbxa"),
        ("price on 2024-01-31", "cbaxd"),
        ("price two years ago", "cbaxd"),
        ("price since 2020", "dcbxa"),
        ("what was it in 1999", "abcxd"),
    ],
)
def test_the_fact_of_the_asked_time_is_first(text: str, expected: str) -> None:
    """The newest, or the newest from before the end of the period; what is no version stays where it is."""
    assert order(history(), text) == expected


def test_a_time_that_a_chat_model_read_counts() -> None:
    """It ends with its tolerance, and counts where the rules find none: 1,000 days before June 2025."""
    matches, time = Matches.of_words(PRICED), TemporalExpression(1100, 100)
    facts = Facts(now=NOW, text="prix d'alors", matches=matches, temporal_expression=time)
    assert versions(history(), Versions(), Run(facts))[0].id == "b"


def test_words_decide_before_the_date() -> None:
    """The newer one lacks a word of the query, or is of lower score by more than the margin, or says something else."""
    old, new = ("a", 1.0, "2020-01-01T00:00:00Z"), ("b", 0.99, "2024-01-01T00:00:00Z")
    assert order([document(*old), document(*new)]) == "ba"
    assert order([document(*old), document(*new)], matches={"3.0": {"a": ("title",)}}) == "ab"
    assert order([document(*old), document(*new)], margin=0.009) == "ab"
    assert order([document(*old), document(*new, title=range(5, 15))]) == "ab"
    assert order([document(*old), document(*new, text=range(80, 99))], similarity=0.8) == "ab"


def test_a_number_that_nobody_has_leaves_the_order() -> None:
    """It may be what tells them apart, however it is written, unless it is that of the time which the query names; a
    year that all have is part of what they are about.
    """
    asked = [document("a", 1.0, "2020-01-01T00:00:00Z"), document("b", 0.99, "2024-01-01T00:00:00Z")]
    assert order(asked, "battery 1.2v", {"battery": {"a": (), "b": ()}, "1.2v": {}}) == "ab"
    assert order(history(), "price in 2022", {"2022": {}}) == "bacxd"
    every = dict.fromkeys("abcd", ("title",))
    assert order(history(), "rules 2020", {"2020": every}) == "dcbxa"


@pytest.mark.parametrize("created_at", [None, "garbage", True, math.nan])
def test_what_has_no_date_has_no_versions(created_at: object) -> None:
    """Neither a missing stamp nor an odd one is older or newer than another."""
    assert order([document("a", 1.0, "2020-01-01T00:00:00Z"), document("b", 0.99, created_at)]) == "ab"


@pytest.mark.parametrize("value", [None, "", "abc", "ééééé", 5, []])
def test_what_has_no_marks_has_no_versions(value: object) -> None:
    """Nothing is known of its terms."""
    assert not are_marks(value)
    other = Candidate("b", 0.99, {MARKS: value, "created_at": "2024-01-01T00:00:00Z"})
    assert order([document("a", 1.0, "2020-01-01T00:00:00Z"), other]) == "ab"


def test_where_nothing_is_known_of_words_nothing_changes() -> None:
    """If their terms are known, those that both have or lack leave them versions, and one that tells them apart
    doesn't.
    """
    for terms, expected in ((None, "ab"), ([1], "ba"), ([99], "ba"), ([40], "ab")):
        old = document("a", 1.0, "2020-01-01T00:00:00Z")
        new = document("b", 0.99, "2024-01-01T00:00:00Z", text=[*SAID, 40])
        payloads = {each.id: each.payload for each in (old, new)}
        found = find_matches([QueryWord("price", terms, 0, 1)], payloads, ["title", "text"]) if terms else None
        words = NO_WORDS if found is None else QueryWords(find_units(found, {*payloads}), 1.0, 0.0)
        ranked = versions([old, new], Versions(), Run(Facts(now=NOW, text="price", matches=found), words=words))
        assert "".join(each.id for each in ranked) == expected


def test_similarity_by_hand() -> None:
    """Of 5 terms of both titles 3 are shared, of 9 terms in all 5: 3/5 * the root of 5/9. A title that adds to the
    other one is the same, and without titles it is the root of the share of all terms.
    """
    asked = [
        document("a", 1.0, 0, title=[1, 2, 3, 9], text=[2, 5, 6, 7]),
        document("b", 1.0, 1, title=[1, 2, 3, 4], text=[5, 6, 8]),
        document("c", 1.0, 2, title=[1, 2, 3], text=[5, 6, 8]),
    ]
    assert find_alike(asked, [(0, 1)]) == {"a": {"b": pytest.approx(3 / 5 * math.sqrt(5 / 9))}}
    assert find_alike(asked, [(0, 2), (1, 2)]) == {
        "a": {"c": pytest.approx(math.sqrt(5 / 8))},
        "b": {"c": pytest.approx(math.sqrt(6 / 7))},
    }
    bare = [document("a", 1.0, 0, title=[], text=[1, 2]), document("b", 1.0, 1, title=[], text=[2, 3])]
    assert find_alike(bare, [(0, 1)]) == {"a": {"b": pytest.approx(math.sqrt(1 / 3))}}
    assert find_alike([asked[0], bare[0]], [(0, 1)]) == {}


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=9), min_size=1, max_size=9))
def test_marks_are_read_as_they_were_written(fields: list[list[int]]) -> None:
    """Each term has one number, and those of the first field are known."""
    written = marks(fields)
    if not written:
        return
    terms, titled = read_marks(written)
    low = [{term & 0xFFFFFF for term in field} for field in fields]
    assert len(terms) == len(titled) == len({term for field in fields for term in field})
    assert len(set(terms.tolist())) == len(set.union(*low))
    assert set(terms[titled].tolist()) == (set(read_marks(marks(fields[:1]))[0].tolist()) if fields[0] else set())


created = st.none() | st.integers(0, 9).map(lambda year: f"202{year}-06-01T00:00:00Z")
drawn = st.lists(st.tuples(st.floats(-1, 2), created, st.sets(st.integers(0, 6))), max_size=15)


@given(drawn, st.sampled_from(["price", "price in 2024", "price last year"]), st.sampled_from(["", "ace", "acegbdfh"]))
def test_scores_are_exchanged_within_groups(documents: list[Any], text: str, having: str) -> None:
    """The same scores stay, at the same ranks; the same documents; the explanation gives each output. A recorded
    pool gives the same order without marks.
    """
    ordered = sorted(documents, key=lambda each: -each[0])
    before = [
        document(chr(97 + n), score, when, text=[*SAID, *terms]) for n, (score, when, terms) in enumerate(ordered)
    ]
    matches = Matches.of_words({"price": dict.fromkeys(having, ("text",))})
    facts = Facts(now=NOW, text=text, matches=matches)
    run = Run(facts, ScoreExplanations({"versions": {}}))
    ranked = versions(list(before), Versions(), run)
    assert [each.score for each in ranked] == [score for score, _, _ in ordered]
    assert {each.id for each in ranked} == {each.id for each in before}
    assert run.explanations is not None
    for each in ranked:
        explanation = run.explanations.by_id.get(each.id)
        if explanation is not None:
            step = explanation.stages[0]
            first = {"stage": "vector", "parameters": {}, "values": {}, "output": step["input"]}
            legs = {"vector": {"score": step["input"]}}
            again = list(recompute({"legs": legs, "stages": [first, step]}))[-1]
            assert again.recomputed == again.stated == each.score
    recorded = [
        Candidate(each.id, score, {name: value for name, value in each.payload.items() if name != MARKS})
        for each, (score, _, _) in zip(sorted(before, key=lambda each: each.id), ordered, strict=True)
    ]
    pooled = Facts(now=NOW, text=text, matches=matches, alike=run.alike)
    assert [each.id for each in versions(recorded, Versions(), Run(pooled))] == [each.id for each in ranked]
