"""Coverage: exact words of the query first, by how rare and how like identifiers they are."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking import coverage
from operators.ranking.candidate import Candidate
from operators.ranking.coverage import NEAR, find_matches, find_misspelt, find_shares, marks, narrow
from operators.ranking.run import Facts, Matches, ModelScores
from schemas.document import MARKS
from schemas.recipes import SHIPPED
from tests.operators.ranking.payloads import explained
from tests.operators.ranking.pools import ids, keyword, leg, rank, recipe, scores, vector

FIELDS = ("title", "text", "brand", "sku", "mpn", "isbn", "ean")

terms = st.integers(0, 2**32 - 1)


def matches(**found: str) -> Matches:
    """Which documents, of one letter each, have which words; `_` in a word is a hyphen."""
    return {word.replace("_", "-"): dict.fromkeys(documents, ("text",)) for word, documents in found.items()}


def order(matches: Matches | None, model: ModelScores | None = None, **weight: Any) -> list[str]:
    """Documents a to j, the nearest first, by coverage of these words."""
    legs = [vector(*((id_, 1.0 - number / 10) for number, id_ in enumerate("abcdefghij")))]
    asked = recipe("score", {"coverage": weight}, {"rerank": {"weight": 0.6}})
    return ids(rank(asked, legs, Facts(matches=matches), model).candidates)


@given(st.lists(st.lists(terms, max_size=20), min_size=1, max_size=9), st.lists(terms, max_size=5))
def test_a_document_has_the_words_that_it_is_marked_with(fields: list[list[int]], others: list[int]) -> None:
    """Every term of every field is found in that field, those from the sixth on together; other terms are not."""
    names = [f"f{number}" for number in range(len(fields))]
    asked = {str(term): [term] for each in fields for term in each} | {str(term): [term] for term in others}
    found = find_matches(asked, {"d": {MARKS: marks(fields)}}, names)
    assert found is not None
    for word in asked:
        low = int(word) & 0xFFFFFF
        having = [number for number, each in enumerate(fields) if low in {term & 0xFFFFFF for term in each}]
        shared = [number for number in range(5, len(fields)) if any(number >= 5 for number in having)]
        wanted = sorted({number for number in having if number < 5} | set(shared))
        assert found[word].get("d", ()) == tuple(names[number] for number in wanted)


def test_without_marks_nothing_is_known() -> None:
    """One candidate of an index that keeps no marks is enough: it may have the words."""
    payloads: dict[str, dict[str, Any]] = {"a": {MARKS: marks([[7]])}, "b": {MARKS: ""}}
    assert find_matches({"seven": [7]}, payloads, ["text"]) == {"seven": {"a": ("text",)}}
    assert find_matches({"seven": [7]}, {**payloads, "c": {}}, ["text"]) is None
    assert find_matches({"seven": [7]}, {**payloads, "c": {MARKS: 5}}, ["text"]) is None


def test_joined_words_count_where_a_candidate_has_them() -> None:
    """A way to join words that nobody has is no word of the query, unlike a word that nobody has."""
    payloads = {"a": {MARKS: marks([[7]])}}
    joined = {"wh1000": [5], "wh1000xm5": [7]}
    assert find_matches({"wh": [3]}, payloads, ["sku"], identifiers=joined) == {"wh": {}, "wh1000xm5": {"a": ("sku",)}}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 5), max_size=4)),
    st.sets(st.sampled_from("abcdef")),
)
def test_matches_of_some_candidates_are_those_found_among_them(documents: dict[str, list[int]], some: set[str]) -> None:
    """Matches that are kept of all candidates are those that a search among some of them finds."""
    words, joined = {"one": [1], "two": [2, 3]}, {"one-two": [4]}
    payloads = {id_: {MARKS: marks([found])} for id_, found in documents.items()}
    every = find_matches(words, payloads, ["text"], identifiers=joined)
    there = {id_: payload for id_, payload in payloads.items() if id_ in some}
    assert every is not None
    assert narrow(every, there, words) == find_matches(words, there, ["text"], identifiers=joined)


def test_shares_by_hand() -> None:
    """Of ten candidates one has SX-12, two have `red`, nobody has `lost`: ln(1 + 9.5/1.5), ln(1 + 8.5/2.5) and
    ln(1 + 10.5/.5) weigh 2, 1 and 1; `red` gives a quarter of that, times (its rarity / that of one)².
    """
    rare, red, lost = math.log(1 + 9.5 / 1.5), math.log(1 + 8.5 / 2.5), math.log(1 + 10.5 / 0.5)
    shares = find_shares(matches(SX_12="c", red="cd", lost=""), [Candidate(id_, 0.0) for id_ in "abcdefghij"])
    whole = 2 * rare + red + lost
    assert shares.words["SX-12"] == pytest.approx(2 * rare / whole)
    assert shares.words["red"] == pytest.approx(red / whole / 4 * (red / rare) ** 2)
    assert shares.rare == {"SX-12"}


def test_a_rare_word_goes_first() -> None:
    """The document with the part number is first, however far it is; the others stay as they were."""
    assert order(matches(SX_12="i")) == ["i", *"abcdefgh", "j"]


def test_a_word_that_nobody_has_switches_nothing_off() -> None:
    """With a second number that no document has, the one with the first is still the first."""
    assert order(matches(SX_12="i", QQ_77="")) == order(matches(SX_12="i"))


def test_common_words_weigh_little() -> None:
    """A word of half of the documents moves none past one that is a tenth nearer; a rarer word does."""
    assert order(matches(with_="fghij")) == list("abcdefghij")
    assert order(matches(umbrella="b"))[:2] == ["b", "a"]


def test_behind_a_model_exact_words_are_first_again() -> None:
    """The model finds the document with the number the worst of all; it stays first."""
    said = ModelScores({id_: -float(number) for number, id_ in enumerate("jhgfedcbai")}, 10)
    assert order(matches(SX_12="i"), said)[0] == "i"
    assert order(None, said)[-1] == "i"


def test_behind_a_model_other_words_count_by_two_fifths() -> None:
    """By hand: one of two documents has `red`, a quarter of the query; behind a model of weight 1 it adds .4 of that.
    A part number has its whole share again.
    """
    legs, said = [vector(("a", 0.9), ("b", 0.1))], ModelScores({"a": 0.9, "b": 0.1}, 2)
    asked = recipe("score", "coverage", "rerank")
    found = {
        word: dict(scores(rank(asked, legs, Facts(matches=matches(**{word: "b"})), said).candidates))
        for word in ("red", "SX_12")
    }
    assert found["red"] == pytest.approx({"a": 1.0, "b": 0.4 / 4})
    assert found["SX_12"] == pytest.approx({"a": 1.0, "b": 1.0})


def test_without_a_model_it_counts_once() -> None:
    """A model that was not asked, or lost, leaves the scores of the first phase."""
    legs = [vector(("a", 0.9), ("b", 0.1))]
    asked = recipe("score", "coverage", "rerank")
    alone = rank(recipe("score", "coverage"), legs, Facts(matches=matches(SX_12="b")))
    assert scores(rank(asked, legs, Facts(matches=matches(SX_12="b"))).candidates) == scores(alone.candidates)


def test_misspelt_words_count_by_their_rarity() -> None:
    """By hand: of two candidates nobody has `insulatd`, ln(1 + 2.5/.5); both have `set`, ln(1 + .5/2.5)."""
    near = leg("fuzzy", ("a", 0.9), ("b", 0.2))
    missing, there = math.log(1 + 2.5 / 0.5), math.log(1 + 0.5 / 2.5)
    assert find_misspelt([near], matches(set_="ab", insulatd="")) == pytest.approx(missing / (missing + there))


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (0.9, matches(red="ab", umbrella="b")),
        (0.9, matches(red="ab", SX_12="", to="")),
        (math.nextafter(NEAR, 0), matches(red="")),
        (0.9, {}),
        (0.9, None),
    ],
)
def test_nothing_is_misspelt(score: float, words: Matches | None) -> None:
    """The candidates have all words except numbers and short ones; or no document is near; or nothing is
    known.
    """
    assert find_misspelt([vector(("a", 0.9)), leg("fuzzy", ("b", score))], words) == 0
    assert find_misspelt([vector(("a", 0.9))], matches(red="")) == 0


def test_a_misspelt_word_gives_the_fuzzy_leg_weight() -> None:
    """As much as its square: half of the query is .25 of the weight. Other queries are ranked as without the leg."""
    others = [vector(("a", 0.9), ("b", 0.5)), keyword(("b", 4.0), ("a", 1.0))]
    fuzzy = leg("fuzzy", ("c", 0.9), ("a", 0.4))
    asked, plain = recipe({"score": {"fuzzy": 2.0}}), recipe("score")
    for words in (matches(red="a", blue="b"), None):
        found = rank(asked, [*others, fuzzy], Facts(matches=words)).candidates
        assert dict(scores(found)) == {**dict(scores(rank(plain, others, Facts()).candidates)), "c": 0.0}
    missing, there = math.log(1 + 3.5 / 0.5), math.log(1 + 2.5 / 1.5)
    found = rank(asked, [*others, fuzzy], Facts(matches=matches(red="a", insulatd=""))).candidates
    assert dict(scores(found))["c"] == pytest.approx(2.0 * (missing / (missing + there)) ** 2)


documents = st.text("abcdefghij", max_size=10)
asked_words = st.dictionaries(
    st.sampled_from(["SX-12", "8701250", "12ab", "red", "5x6", "umbrella"]), documents, max_size=6
)


@given(asked_words, st.none() | st.permutations("abcdefghij"), st.floats(0, 3), st.integers(1, 12))
def test_all_rare_words_are_never_below_none(
    words: dict[str, str], said: list[str] | None, weight: float, top: int
) -> None:
    """Whatever model and weight: a document with all words like identifiers, which at most a tenth have, stands ahead
    of all that have none of them; and scores fall with rank.
    """
    found = {word: dict.fromkeys(having, ("sku",)) for word, having in words.items()}
    model = None if said is None else ModelScores({id_: -float(rank) for rank, id_ in enumerate(said)}, top)
    legs = [vector(*((id_, 1.0 - number / 10) for number, id_ in enumerate("abcdefghij")))]
    asked = recipe("score", {"coverage": {"weight": weight}}, {"rerank": {"weight": 0.6}})
    ranked = rank(asked, legs, Facts(matches=found), model).candidates
    rare = [
        set(having)
        for word, having in words.items()
        if word not in {"red", "5x6", "umbrella"} and len(set(having)) == 1
    ]
    places = {candidate.id: place for place, candidate in enumerate(ranked)}
    complete = set.intersection(*rare) if rare else set()
    without = set("abcdefghij") - set().union(*rare)
    assert all(places[one] < places[other] for one in complete for other in without)
    assert [candidate.score for candidate in ranked] == sorted((each.score for each in ranked), reverse=True)


def test_the_explanation_says_which_words() -> None:
    """`explain` says which words a document has, in which fields, and what each gave."""
    found: Matches = {"sx-12": {"b": ("title", "sku")}, "red": {"a": ("text",), "b": ("text",)}}
    legs = [vector(("a", 0.9), ("b", 0.1)), keyword(("b", 7.0))]
    ranked = rank(SHIPPED["hybrid"], legs, Facts(matches=found, explain=True))
    step = explained(ranked, "b")["stages"][1]
    shares = {word: each["share"] for word, each in step["values"]["words"].items()}
    assert step["stage"] == "coverage"
    assert {word: each["fields"] for word, each in step["values"]["words"].items()} == {
        "sx-12": ["title", "sku"],
        "red": ["text"],
    }
    assert step["output"] == pytest.approx(step["input"] + math.fsum(shares.values()))
    assert explained(ranked, "a")["stages"][1]["values"]["words"].keys() == {"red"}


@given(
    documents=st.lists(st.lists(st.sets(st.integers(0, 40), max_size=12), min_size=1, max_size=3), max_size=6),
    words=st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(0, 2**26), max_size=3)),
    joined=st.dictionaries(st.sampled_from("xyz"), st.lists(st.integers(0, 45), max_size=3)),
)
def test_many_words_are_looked_for_as_few_are(
    documents: list[list[set[int]]], words: dict[str, list[int]], joined: dict[str, list[int]]
) -> None:
    """All at once, or each by itself: the matches are the same, in the same order."""
    payloads = {f"d{number}": {MARKS: marks(fields)} for number, fields in enumerate(documents)}
    found = []
    for few in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coverage, "_FEW_MARKS", few)
            found.append(find_matches(words, payloads, ["title", "text", "brand"], identifiers=joined))
    assert str(found[0]) == str(found[1])
