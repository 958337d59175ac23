"""Coverage: the evidence of a query's words, by how rare they are and what supports them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.coverage import coverage, find_query_words, find_units, find_unknown, share_of_words
from operators.ranking.run import NO_WORDS, Facts, Matches, ModelScores, QueryWords
from operators.text.terms import READ_AS
from schemas.document import CONTENT
from schemas.recipes import SHIPPED
from schemas.recipes.stages import Coverage
from tests.operators.ranking.payloads import explained, said
from tests.operators.ranking.pools import ids, keyword, leg, rank, recipe, run, scores, vector

DOCUMENTS: Final = "abcdefghij"
TWO: Final = math.log(1 + 8.5 / 2.5) / math.log(1 + 9.5 / 1.5)
THREE: Final = math.log(1 + 7.5 / 3.5) / math.log(1 + 9.5 / 1.5)
NOBODY: Final = math.log(1 + 10.5 / 0.5) / math.log(1 + 9.5 / 1.5)
"""The rarity of a word of two of ten documents, of three, and of none, to that of a word of one."""

Having = Mapping[str, Collection[str]]


def matches(having: Having, atoms: Mapping[str, tuple[int, int]] | None = None) -> Matches:
    """Which documents, of one letter each, have which words: atoms side by side, or these."""
    fields = {word: dict.fromkeys(documents, ("text",)) for word, documents in having.items()}
    return Matches.of_words(fields) if atoms is None else Matches(fields, atoms)


def of(**having: str) -> Matches:
    """The same for words that are names in Python; `_` in a word is a hyphen."""
    return matches({word.replace("_", "-"): documents for word, documents in having.items()})


def gains(found: Matches, documents: Sequence[str] = DOCUMENTS, **parameters: float) -> dict[str, float]:
    """The gain of each of the documents, by words of full credit; all had 0."""
    candidates = [Candidate(id_, 0.0) for id_ in documents]
    counted = replace(run(matches=found), words=QueryWords(find_units(found, {*documents}), 1.0, 0.0))
    return dict(scores(coverage(candidates, Coverage(**parameters), counted)))


def gain(evidence: float) -> Any:
    """The gain by this evidence and the default weight."""
    return pytest.approx(0.5 * evidence / (1 + evidence), rel=1e-12)


def order(found: Matches | None, model: ModelScores | None = None, **parameters: Any) -> list[str]:
    """Documents a to j, the nearest first, by coverage of these words."""
    legs = [vector(*((id_, 1.0 - number / 10) for number, id_ in enumerate(DOCUMENTS)))]
    asked = recipe("score", {"coverage": parameters}, {"rerank": {"weight": 0.6}})
    return ids(rank(asked, legs, Facts(matches=found), model).candidates)


def test_evidence_by_hand() -> None:
    """Of ten documents two have `lamp`, one of them `red`, and another one the year. With both words each is supported
    in full; with one, or with the year alone, there is no support.
    """
    found = gains(of(red="c", lamp="cd", year="i"))
    assert found == {**dict.fromkeys(DOCUMENTS, 0.0), "c": gain(1 + TWO**3)}


def test_partial_support_by_hand() -> None:
    """c has red, lamp and oak; d has red and lamp: there red is supported by lamp alone, out of lamp and oak, and lamp
    by red out of red and oak. The year decides between documents that are alike otherwise.
    """
    red, lamp, oak = TWO**3, THREE**3, 1.0
    found = gains(of(red="cd", lamp="cde", oak="c"))
    assert found["c"] == gain(red + lamp + oak)
    assert found["d"] == gain(red * lamp / (lamp + oak) + lamp * red / (red + oak))
    assert found["e"] == 0
    found = gains(of(red="cd", lamp="cd", year="dx"))
    assert found["d"] == gain(2 * TWO**3 + 1)
    assert found["c"] == gain(2 * TWO**3 * TWO**3 / (TWO**3 + 1))


def test_a_form_by_hand() -> None:
    """SX-12 is the atoms sx and 12, and the form, which only a has. The atoms support each other, and all three need
    other words' support: where there is none they need none, and beside `red`, which a lacks, they have none.
    """
    asked = {"sx": (0, 1), "12": (1, 1), "sx12": (0, 2)}
    having = {"sx": "ab", "12": "abc", "sx12": "a"}
    found = gains(matches(having, asked))
    assert found["a"] == gain(TWO**3 + THREE**3 + 1)
    assert found["b"] == gain(TWO**3 + THREE**3)
    assert found["c"] == 0
    found = gains(matches({**having, "red": "bd"}, {**asked, "red": (2, 1)}))
    red, sx, twelve = TWO**3, TWO**3, THREE**3
    assert found["b"] == gain(sx + twelve + red)
    assert found["a"] == 0
    # Where nobody writes them as one they are words as others are.
    asked.pop("sx12")
    found = gains(matches({"sx": "ab", "12": "abc", "red": "bd"}, {**asked, "red": (2, 1)}))
    assert found["a"] == gain(sx * twelve / (twelve + red) + twelve * sx / (sx + red))


def test_a_number_and_its_unit_are_one_thing_by_hand() -> None:
    """`48 hours` in a text about something else has no other word of the query, and says nothing, whether or not
    another document has more of the query. A number and a word that is no unit are two words, and support each other.
    """
    asked = matches({"symptoms": "a", "48": "b", "hours": "bc"})
    assert gains(asked) == dict.fromkeys(DOCUMENTS, 0.0)
    words = gains(matches({"symptoms": "a", "48": "b", "miners": "bc"}))
    assert words == {**dict.fromkeys(DOCUMENTS, 0.0), "b": gain(1 + TWO**3)}
    found = gains(matches({"symptoms": "ac", "48": "bc", "hours": "bc"}))
    assert found == {**dict.fromkeys(DOCUMENTS, 0.0), "c": gain(3 * TWO**3)}
    # Alone they need no support.
    assert gains(matches({"48": "b", "hours": "bc"}))["b"] == gain(1 + TWO**3)


def test_who_writes_a_form_has_its_atoms() -> None:
    """`boundarylayer` is `boundary` and `layer`: who has the one is where the others are."""
    asked = {"boundary": (0, 1), "layer": (1, 1), "boundarylayer": (0, 2)}
    units = find_units(matches({"boundary": "a", "layer": "ab", "boundarylayer": "c"}, asked), {*DOCUMENTS})
    assert {unit.text: set(unit.fields) for unit in units} == {
        "boundary": {"a", "c"},
        "layer": {"a", "b", "c"},
        "boundarylayer": {"c"},
    }
    fields: dict[str, dict[str, Sequence[str]]] = {
        "boundary": {"a": ("title",)},
        "layer": {},
        "boundarylayer": {"a": ("title", "text")},
    }
    units = find_units(Matches(fields, asked), {"a"})
    assert {unit.text: list(unit.fields["a"]) for unit in units} == {
        "boundary": ["title", "text"],
        "layer": ["title", "text"],
        "boundarylayer": ["title", "text"],
    }


def test_stop_words_of_a_name_are_atoms() -> None:
    """`touchmenot` has two: who writes the name has more of the query than who has one of its words, and a document
    that has another word beside that.
    """
    asked = {"touch": (0, 1), "plant": (3, 1), "touchmenot": (0, 3)}
    having = {"touch": "ab", "plant": "b", "touchmenot": "a"}
    units = find_units(matches(having, asked), {*DOCUMENTS})
    assert {unit.text: set(unit.fields) for unit in units} == {
        "touch": {"a", "b"},
        "plant": {"b"},
        "touchmenot": {"a"},
        "touchmenot:2": {"a"},
        "touchmenot:3": {"a"},
    }
    found = gains(matches(having, asked))
    assert found["a"] > found["b"] > 0
    # Nobody writes it.
    units = find_units(matches({**having, "touchmenot": ""}, asked), {*DOCUMENTS})
    assert [unit.text for unit in units] == ["touch", "plant"]


def test_stop_words_are_no_atoms() -> None:
    """`howto` covers two stop words, which are no words of the query: it is supported by the others as any word is, so
    an unrelated text that has it gains nothing, and is no measure for the others.
    """
    asked = {"fix": (2, 1), "bike": (3, 1), "howto": (0, 2)}
    without = gains(matches({"fix": "ab", "bike": "abc"}, {word: asked[word] for word in ("fix", "bike")}))
    assert gains(matches({"fix": "ab", "bike": "abc", "howto": "x"}, asked), [*DOCUMENTS, "x"])["x"] == 0
    assert gains(matches({"fix": "ab", "bike": "abc", "howto": "j"}, asked)) == without


def test_a_rare_word_goes_first() -> None:
    """It gives half of the weight to the document that has it: .25 is more than four of nine places, which are .22, and
    no more than eight; the others stay as they were.
    """
    assert order(of(SX_12="e")) == [*"eabcd", *"fghij"]
    assert order(of(SX_12="i")) == [*"abcdi", *"efghj"]
    assert order(of(SX_12="i"), weight=1) == [*"iabcd", *"efghj"]


def test_common_words_weigh_little() -> None:
    """A word of half of the documents moves none past one that is a tenth nearer; a rarer word does."""
    assert order(of(with_="fghij")) == list(DOCUMENTS)
    assert order(of(umbrella="b"))[:2] == ["b", "a"]


def test_behind_a_model_words_count_once_more() -> None:
    """The same gain again: .25 of a word that one document has. The model's scores are 1 0, at weight .6 beside the
    order's.
    """
    legs, read = [vector(("a", 0.9), ("b", 0.1))], ModelScores({"a": 0.9, "b": 0.1}, 2)
    asked = recipe("score", {"coverage": {"weight": 0.5}}, {"rerank": {"weight": 0.6}})
    ranked = rank(asked, legs, Facts(matches=of(red="b")), read).candidates
    assert dict(scores(ranked)) == pytest.approx({"a": 1.0, "b": 0.25})


def test_copies_that_went_stay_a_measure() -> None:
    """Behind a model each document gains as much as ahead of it, whoever was left out between."""
    payloads = {id_: {CONTENT: min(number, 3)} for number, id_ in enumerate("abcdef")}
    legs = [vector(*((id_, 1.0 - number / 10) for number, id_ in enumerate("abcdef")), payloads=payloads)]
    found, read = of(red="abf", lamp="bcf", oak="f"), ModelScores(dict.fromkeys("abcd", 0.5), 4)
    ranked = rank(SHIPPED["hybrid"], legs, Facts(matches=found, explain=True), read)
    assert {each.id for each in ranked.candidates} <= set("abcdf")
    for each in ranked.candidates:
        ahead, behind = (step for step in explained(ranked, each.id)["stages"] if step["stage"] == "coverage")
        assert ahead["values"] == behind["values"]


def test_without_a_model_it_counts_once() -> None:
    """A model that was not asked, or lost, leaves the scores of the first phase."""
    legs, found = [vector(("a", 0.9), ("b", 0.1))], of(SX_12="b")
    alone = rank(recipe("score", "coverage"), legs, Facts(matches=found))
    assert scores(rank(recipe("score", "coverage", "rerank"), legs, Facts(matches=found)).candidates) == scores(
        alone.candidates
    )


def test_where_nothing_is_known_nothing_changes() -> None:
    """Neither without matches, nor where no candidate has a word."""
    assert order(None) == order(of()) == order(of(lost="", gone="x")) == list(DOCUMENTS)


def test_shares_by_hand() -> None:
    """Of ten documents one has `oak`, two have `red` and nobody `lost`, which makes all shares less; a form is none."""
    lost = math.log(1 + 10.5 / 0.5) / math.log(1 + 9.5 / 1.5)
    asked = {"oak": (0, 1), "red": (1, 1), "lost": (2, 1), "oakred": (0, 2), "redlost": (1, 2)}
    having = {"oak": "c", "red": "cd", "lost": "", "oakred": "c", "redlost": "x"}
    shares = share_of_words(find_units(matches(having, asked), {*DOCUMENTS}))
    assert shares == pytest.approx({"c": (1 + TWO) / (1 + TWO + lost), "d": TWO / (1 + TWO + lost)})


INSULATED: Final = f"insulatd{READ_AS}insulated"


def test_misspelt_words_count_by_their_rarity() -> None:
    """By hand: of two candidates one has what `insulatd` was read for, ln(1 + 1.5/1.5); both have `set`, ln(1 +
    .5/2.5).
    """
    near = leg("fuzzy", ("a", 0.9), ("b", 0.2))
    read, there = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    found = matches({"set": "ab", INSULATED: "a"})
    assert find_query_words([near], found).misspelt == pytest.approx(read / (read + there))
    assert find_unknown(of(set="ab", insulatd=""), {"a", "b"}) == {"insulatd"}
    assert find_unknown(found, {"a", "b"}) == set()


@pytest.mark.parametrize("words", [of(red="ab", umbrella="b"), of(red="ab", insulatd=""), of(), None])
def test_nothing_is_misspelt(words: Matches | None) -> None:
    """No word was read for another one, or nothing is known."""
    assert find_query_words([vector(("a", 0.9)), leg("fuzzy", ("b", 0.9))], words).misspelt == 0


def test_a_misspelt_word_gives_the_fuzzy_leg_weight() -> None:
    """As much as its share of the query. Other queries are ranked as without the leg."""
    others = [vector(("a", 0.9), ("b", 0.5)), keyword(("b", 4.0), ("a", 1.0))]
    fuzzy = leg("fuzzy", ("c", 0.9), ("a", 0.4))
    asked, plain = recipe({"score": {"fuzzy": 2.0}}), recipe("score")
    for words in (of(red="a", insulatd=""), None):
        found = rank(asked, [*others, fuzzy], Facts(matches=words)).candidates
        assert dict(scores(found)) == {**dict(scores(rank(plain, others, Facts()).candidates)), "c": 0.0}
    found = rank(asked, [*others, fuzzy], Facts(matches=matches({"red": "a", INSULATED: "c"}))).candidates
    assert dict(scores(found))["c"] == pytest.approx(2.0 * 0.5)


def test_the_explanation_says_which_words() -> None:
    """`explain` says which words a document has, in which fields, what each says and how far it is supported."""
    found = Matches.of_words({"sx-12": {"b": ("title", "sku")}, "red": {"a": ("text",), "b": ("text",)}})
    legs = [vector(("a", 0.9), ("b", 0.1)), keyword(("b", 7.0))]
    ranked = rank(SHIPPED["hybrid"], legs, Facts(matches=found, explain=True))
    step = explained(ranked, "b")["stages"][1]
    both = (math.log(1 + 0.5 / 2.5) / math.log(1 + 1.5 / 1.5)) ** 3
    assert step["stage"] == "coverage"
    assert step["values"] == {
        "words": {
            "sx-12": {"information": 1.0, "support": 1.0, "fields": ["title", "sku"]},
            "red": {"information": pytest.approx(both), "support": 1.0, "fields": ["text"]},
        },
        "evidence": pytest.approx(1 + both),
        "credit": 1.0,
    }
    assert step["output"] == pytest.approx(step["input"] + 0.5 * (1 + both) / (2 + both))
    assert explained(ranked, "a")["stages"][1]["values"]["words"]["red"]["support"] == 0


@pytest.mark.parametrize(
    ("having", "credit"),
    [
        ({"oak": "c", "red": "cd", "lost": ""}, 1.0),
        ({"oak": "c", "red": "de", "lost": "", "gone": ""}, 2 / (1 + TWO + 2 * NOBODY)),
        ({"lost": "", "gone": ""}, 1.0),
        ({"oak": "c"}, 1.0),
    ],
)
def test_the_credit_of_words_by_hand(having: Having, credit: float) -> None:
    """Twice the share of the best, at most 1; where nobody has a word there is nothing that credit could lower."""
    words = find_query_words([vector(*((id_, 0.5) for id_ in DOCUMENTS))], matches(having))
    assert words.credit == pytest.approx(credit)
    assert find_query_words([vector(("a", 0.5))], None) == NO_WORDS


def test_words_of_little_credit_count_less() -> None:
    """Of a query of three words one candidate has one: the evidence is less, and so is the leg's greatest score."""
    found = matches({"oak": "c", "lost": "", "gone": ""})
    legs = [vector(*((id_, 0.5) for id_ in DOCUMENTS)), keyword(("c", 4.0), ("d", 2.0))]
    step = rank(SHIPPED["documents"], legs, Facts(matches=found, explain=True))
    fused, covered = explained(step, "c")["stages"][:2]
    credit = 2 / (1 + 2 * NOBODY)
    assert explained(step, "c")["legs"]["keyword"]["normalised"] == pytest.approx(credit)
    assert explained(step, "d")["legs"]["keyword"]["normalised"] == pytest.approx(credit / 2)
    assert covered["values"]["credit"] == covered["values"]["evidence"] == pytest.approx(credit)
    assert fused["output"] == pytest.approx(0.5 + credit / 2)


WORDS: Final = ("red", "lamp", "8701250", "oak", "5x6")
some = st.frozensets(st.sampled_from(DOCUMENTS))
queries = st.dictionaries(st.sampled_from(WORDS), some, max_size=5)
spans = st.lists(st.tuples(st.integers(0, 5), st.integers(2, 3), some), max_size=3)
parameters = st.fixed_dictionaries({"weight": st.floats(0, 3), "rarity": st.floats(0.01, 9)})


def with_forms(having: Having, forms: Collection[tuple[int, int, Collection[str]]]) -> Matches:
    """Words side by side, and forms over some of their atoms, and beyond."""
    names = {f"form {first} {atoms}": (first, atoms) for first, atoms, _ in forms}
    atoms = {**{word: (place, 1) for place, word in enumerate(having)}, **names}
    return matches({**having, **{f"form {first} {atoms}": found for first, atoms, found in forms}}, atoms)


def counts(having: Having) -> dict[str, int]:
    """The number of the words that each document has."""
    return {id_: sum(id_ in found for found in having.values()) for id_ in DOCUMENTS}


@given(queries, spans, parameters, st.integers(0, 5))
def test_a_word_that_nobody_has_changes_no_score(having: Having, forms: Any, parameters: Any, place: int) -> None:
    """Wherever it stands in the query, between its forms."""
    found = with_forms(having, forms)
    assume(all(first >= place or first + atoms <= place for first, atoms in found.atoms.values()))
    behind = {word: (first + (first >= place), atoms) for word, (first, atoms) in found.atoms.items()}
    more = Matches({**found.fields, "lost": {}}, {**behind, "lost": (place, 1)})
    assert gains(more, **parameters) == gains(found, **parameters)


@given(queries, spans, parameters, st.sets(st.integers(0, 5)))
def test_forms_that_nobody_has_change_nothing(having: Having, forms: Any, parameters: Any, others: set[int]) -> None:
    """Neither scores, nor how well a document fits, be they over words or over stop words."""
    found = with_forms(having, forms)
    nobody = {f"none {first}": (first, 2) for first in others}
    fields = {**found.fields, **{form: {"elsewhere": ("text",)} for form in nobody}}
    more = Matches(fields, {**found.atoms, **nobody})
    assert gains(more, **parameters) == gains(found, **parameters)
    shares = [share_of_words(find_units(each, {*DOCUMENTS})) for each in (found, more)]
    assert shares[0] == shares[1]


@given(queries, some, parameters)
def test_a_word_of_unrelated_documents_changes_no_score(having: Having, year: Collection[str], parameters: Any) -> None:
    """Only documents that have no other word have it, while another one has two: whoever has two gains as before, and
    the unrelated ones gain nothing.
    """
    had = counts(having)
    assume(max(had.values()) > 1)
    unrelated = {id_ for id_ in year if not had[id_]}
    before, after = gains(matches(having), **parameters), gains(matches({**having, "2025": unrelated}), **parameters)
    assert after == before
    assert all(after[id_] == 0 for id_ in unrelated)


@given(queries, st.sampled_from(WORDS), parameters)
def test_one_word_more_never_gains_less(having: Having, more: str, parameters: Any) -> None:
    """Of two documents that have the same words, and one of them another one, too, that one gains no less; two that
    have the same words gain the same.
    """
    found = {word: set(its) for word, its in having.items()}
    found.setdefault(more, set())
    for its in found.values():
        its -= {"a", "b"}
        its |= {"a", "b"} if "c" in its else set()
    gained = gains(matches(found), **parameters)
    assert gained["a"] == gained["b"] == gained["c"]
    found[more].add("a")
    gained = gains(matches(found), **parameters)
    assert gained["a"] >= gained["b"]


@given(st.frozensets(st.sampled_from(DOCUMENTS), min_size=1), parameters)
def test_a_query_of_one_word_needs_no_support(having: Collection[str], parameters: Any) -> None:
    """All that have it gain the same, the more the fewer they are."""
    gained = gains(matches({"ladder": having}), **parameters)
    information = (math.log(1 + (10.5 - len(having)) / (len(having) + 0.5)) / math.log(1 + 9.5 / 1.5)) ** parameters[
        "rarity"
    ]
    most = pytest.approx(parameters["weight"] * information / (1 + information))
    assert gained == {id_: most if id_ in having else 0 for id_ in DOCUMENTS}
    assert len({gained[id_] for id_ in having}) == 1


@given(queries, spans, parameters, st.none() | st.permutations(DOCUMENTS))
def test_two_runs_give_the_same_to_the_bit(having: Having, forms: Any, parameters: Any, read: Any) -> None:
    """With the explanations, whatever the order in which documents are found."""
    model = None if read is None else ModelScores({id_: -float(place) for place, id_ in enumerate(read)}, 7)
    legs = [vector(*((id_, 1.0 - number / 10) for number, id_ in enumerate(DOCUMENTS)))]
    asked = recipe("score", {"coverage": parameters}, "dedupe", {"rerank": {"weight": 0.6}})
    found = with_forms(having, forms)
    turned = Matches({word: dict(reversed(list(its.items()))) for word, its in found.fields.items()}, found.atoms)
    first, second = (said(rank(asked, legs, Facts(matches=each, explain=True), model)) for each in (found, turned))
    assert first == second


@given(
    st.dictionaries(
        st.sampled_from(("laptop", "students", "light")), st.frozensets(st.sampled_from("abcde")), min_size=2
    ),
    st.frozensets(st.sampled_from("fghij"), min_size=1),
    st.permutations(DOCUMENTS),
    st.permutations(DOCUMENTS),
)
def test_the_year_of_unrelated_documents_puts_none_first(
    having: Having, year: Collection[str], near: Sequence[str], alike: Sequence[str]
) -> None:
    """ "best laptop for students 2025", in the first phase of `hybrid`: documents of something else that have the year
    are first only where the legs alone put them first.
    """
    assume(max(counts(having).values()) > 1)
    legs = [
        vector(*((id_, 0.8 - number / 20) for number, id_ in enumerate(near))),
        keyword(*((id_, 9.0 - number / 2) for number, id_ in enumerate(alike))),
    ]
    found = matches({**having, "2025": year})
    ranked = ids(rank(SHIPPED["hybrid"], legs, Facts(matches=found)).candidates)
    fused = ids(rank(recipe({"score": {"normaliser": "theoretical"}}), legs, Facts(matches=found)).candidates)
    for id_ in year:
        behind = set(fused[fused.index(id_) :])
        assert set(ranked[ranked.index(id_) :]) <= behind
