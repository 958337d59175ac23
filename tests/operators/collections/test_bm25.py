"""The keyword leg's terms."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.collections import analysers
from operators.collections.analysers import CURRENT, Bm25
from operators.text import passages
from operators.text.analysis import Token, analyse
from schemas.errors import ConfigError
from schemas.settings.qdrant import Bm25Settings

EXCHANGES = json.loads((Path(__file__).parents[2] / "data" / "qdrant_exchanges.json").read_text())["exchanges"]
(UPSERT,) = (exchange for exchange in EXCHANGES if exchange["name"] == "upsert")
ENGLISH = Bm25()
ANY_TEXT = st.text() | st.text(st.characters(categories=["Zs", "Cs"], include_characters="ab"))


@pytest.mark.parametrize("point", UPSERT["request"]["points"], ids=lambda point: point["payload"]["doc"])
def test_documents_have_the_terms_that_a_server_accepted(point: dict[str, Any]) -> None:
    """A document's indices are the recorded ones, its weights to 1e-6, with the model's default parameters."""
    found = ENGLISH.document(point["payload"]["text"])
    assert found.indices == point["vector"]["bm25"]["indices"]
    assert found.values == pytest.approx(point["vector"]["bm25"]["values"], abs=1e-6)


@given(ANY_TEXT)
def test_any_text_has_ascending_terms(text: str) -> None:
    """No string is refused; ids ascend without repeats, a query's weights are 1 and a document's positive."""
    document = ENGLISH.document(text)
    assert document.indices == sorted(set(document.indices))
    assert len(document.values) == len(document.indices)
    assert all(value > 0 for value in document.values)
    query = ENGLISH.query(text)
    if query is None:
        assert document.indices == []
    else:
        assert query.indices == document.indices
        assert set(query.values) == {1.0}


def test_a_lone_surrogate_separates_words() -> None:
    """A string that UTF-8 can't hold has the terms of what surrounds the broken character."""
    assert ENGLISH.query("blue\ud83dlantern") == ENGLISH.query("blue lantern")


@pytest.mark.parametrize("text", ["", "   ", "?!", "the of and"])
def test_a_query_without_terms_is_none(text: str) -> None:
    """Nothing, punctuation and stop words make no query, and an empty document."""
    assert ENGLISH.query(text) is None
    assert ENGLISH.document(text).indices == []


def test_english_stems_and_drops_stop_words() -> None:
    """The default language sees one word in its inflections."""
    assert ENGLISH.query("the lanterns") == ENGLISH.query("lantern")


def test_no_language_takes_words_as_they_are() -> None:
    """With the language "none" every word is a term of its own, whatever its case."""
    plain = Bm25(Bm25Settings(language="none"))
    found = plain.query("the lanterns Lantern lantern")
    assert found is not None
    assert len(found.indices) == 3


def test_another_language_has_its_own_stop_words() -> None:
    """German articles vanish from German text only."""
    german = Bm25(Bm25Settings(language="german"))
    assert german.query("der die das") is None
    assert ENGLISH.query("der die das") is not None


def test_parameters_shape_a_documents_weights() -> None:
    """Longer documents weigh less the shorter the expected length, unless b switches that off; k bounds repetition."""
    text = "blue lantern over copper harbor"
    assert Bm25(Bm25Settings(avg_len=2)).document(text).values[0] < ENGLISH.document(text).values[0]
    assert Bm25(Bm25Settings(b=0, avg_len=2)).document(text).values == [1.0] * 4
    assert Bm25(Bm25Settings(k=0)).document("blue blue blue").values == [1.0]


@pytest.mark.parametrize(
    "parameters",
    [
        Bm25Settings.model_construct(language="klingon"),
        Bm25Settings.model_construct(k=-1),
        Bm25Settings.model_construct(b=1.5),
        Bm25Settings.model_construct(avg_len=0),
        Bm25Settings.model_construct(avg_len=float("nan")),
    ],
    ids=str,
)
def test_parameters_that_the_model_refuses_are_configuration_errors(parameters: Bm25Settings) -> None:
    """A wrong parameter is found at start and named."""
    with pytest.raises(ConfigError, match=r"bm25: .*(language|k1|b|avg)"):
        Bm25(parameters)


# The current analysis

CURRENT_ENGLISH = Bm25(analysis=CURRENT)


def weights(bm25: Bm25, text: str) -> dict[int, float]:
    """The terms of a document and their weights."""
    found = bm25.document(text)
    return dict(zip(found.indices, found.values, strict=True))


@given(st.text(st.sampled_from("abé ßÄñ жΩ \n.,!?"), max_size=200) | st.text("ab \n", max_size=2000))
def test_plain_words_have_the_terms_of_qdrant(text: str) -> None:
    """Of words without digits, signs or other spellings the weights are those of Qdrant's own model, to 1e-6; a
    document has its stop words, too, and a query has them where it has nothing else.
    """
    text = re.sub(r"(?<=\w)[.,]+(?=\w)", " ", text.lower())
    ours, theirs = weights(CURRENT_ENGLISH, text), weights(ENGLISH, text)
    assert {term: ours[term] for term in theirs} == pytest.approx(theirs, rel=1e-6)
    asked = ENGLISH.query(text)
    if asked is not None:
        assert CURRENT_ENGLISH.query(text) == asked
    elif (alone := CURRENT_ENGLISH.query(text)) is not None:
        assert set(alone.indices) == ours.keys()


def test_stop_words_are_found_where_a_query_has_nothing_else() -> None:
    """They are terms of every document, make none longer, and mark none; beside other words a query leaves them out."""
    bare, said = weights(CURRENT_ENGLISH, "band"), weights(CURRENT_ENGLISH, "The Who is a band")
    assert bare.items() <= said.items()
    alone = CURRENT_ENGLISH.query("The Who")
    assert alone is not None
    (joined,) = set(alone.indices) - said.keys()
    assert set(alone.indices) - {joined} <= said.keys() - bare.keys()
    assert CURRENT_ENGLISH.query("the who band") == CURRENT_ENGLISH.query("band")
    found = CURRENT_ENGLISH.words("The, who?")
    assert [(word.text, word.atoms) for word in found] == [("the", 1), ("who", 1), ('"the who"', 2)]
    assert found[-1].terms == [joined]
    assert ENGLISH.query("The Who") is None


def test_a_field_of_stop_words_alone_has_a_term_for_all_of_them() -> None:
    """A query of these words in any order has it, too, and it weighs as they do; the field is marked with it alone."""
    asked = CURRENT_ENGLISH.query("The Who")
    terms, marked = CURRENT_ENGLISH.payload({"title": "The who!", "text": "A band"})
    assert asked is not None
    (joined,) = marked[0]
    assert dict(zip(asked.indices, asked.values, strict=True))[joined] == 2.0
    assert joined in terms.indices
    assert joined not in marked[1]
    turned = CURRENT_ENGLISH.query("who the")
    assert turned is not None
    assert joined in turned.indices
    for other in ("It", "the who band", "12", "?"):
        query = CURRENT_ENGLISH.query(other)
        assert query is None or joined not in query.indices


def test_a_querys_size_is_told_by_its_number() -> None:
    """The unit weighs half of a word, and so does the number with its unit; the number weighs as a word."""
    for text in ("symptoms 48 hours", "symptoms 48hours", "symptoms 48-hours"):
        weights_of = {word.text: word.weight for word in CURRENT_ENGLISH.words(text)}
        assert weights_of == {"symptoms": 1, "48": 1, "hours": 0.5, "48h": 0.5, "48hours": 0.5}, text
    assert {word.text: word.weight for word in CURRENT_ENGLISH.words('garden 6"')} == {"garden": 1, "6": 1, "6in": 0.5}


def test_identifiers_add_terms_and_no_length() -> None:
    """The words of a document weigh the same with forms beside them, which weigh as a word; in a query an identifier
    weighs as much as its parts.
    """
    text = "headphones WH-1000XM5, blue"
    before, after = weights(ENGLISH, text), weights(CURRENT_ENGLISH, text)
    parts, (joined,) = ({*CURRENT_ENGLISH.terms_of(each)} for each in ("1000 xm 5", "wh1000xm5"))
    assert after.keys() - before.keys() == {*parts, joined}
    assert {term: after[term] for term in before} == pytest.approx(before, rel=1e-6)
    assert after[joined] == pytest.approx(before[min(before)], rel=1e-6)
    asked = CURRENT_ENGLISH.query("wh 1000 xm5")
    assert asked is not None
    assert dict(zip(asked.indices, asked.values, strict=True))[joined] == 4


@given(ANY_TEXT | st.text("ab1- 雨伞"))
def test_the_current_analysis_takes_any_text(text: str) -> None:
    """No string is refused, ids ascend without repeats, and weights are positive."""
    document = CURRENT_ENGLISH.document(text)
    assert document.indices == sorted(set(document.indices))
    assert all(value > 0 for value in document.values)
    query = CURRENT_ENGLISH.query(text)
    assert query is None or query.indices == sorted(set(query.indices))


def test_a_query_has_the_terms_of_each_word_and_identifier() -> None:
    """By the word, or the pair of characters, with their places; stop words have none, and Qdrant's own analysis knows
    no forms.
    """
    words = CURRENT_ENGLISH.words("the wh 1000 雨伞很")
    assert [(word.text, word.first, word.atoms) for word in words] == [
        *[("wh", 1, 1), ("1000", 2, 1), ("雨伞", 3, 1), ("伞很", 4, 1)],
        *[("thewh1000", 0, 3), ("wh1000", 1, 2)],
    ]
    asked = CURRENT_ENGLISH.query("the wh 1000 雨伞很")
    assert asked is not None
    assert sorted({term for word in words for term in word.terms}) == asked.indices
    assert [word.text for word in ENGLISH.words("the wh 1000")] == ["wh", "1000"]


def test_words_side_by_side_are_evidence_alone() -> None:
    """Their joined form has terms, and no weight in the keyword leg; it begins with no stop word."""
    words = CURRENT_ENGLISH.words("the boundary layer")
    assert [(word.text, word.weight) for word in words] == [("boundary", 1), ("layer", 1), ("boundarylayer", 0)]
    assert CURRENT_ENGLISH.query("the boundary layer") == ENGLISH.query("boundary layer")


def test_a_chinese_query_finds_a_sentence() -> None:
    """All terms of a word are those of a sentence that holds it, which Qdrant's own model takes for one word."""
    asked = CURRENT_ENGLISH.query("雨伞")
    assert asked is not None
    assert {*asked.indices} <= {*CURRENT_ENGLISH.document("这把雨伞很好。").indices}
    plain = ENGLISH.query("雨伞")
    assert plain is not None
    assert not {*plain.indices} & {*ENGLISH.document("这把雨伞很好。").indices}


@pytest.mark.parametrize("count", [1, 2, 99, 5000])
def test_counts_are_exact(count: int) -> None:
    """A term's weight is that of its count, however often it is there."""
    text = " ".join(["lantern"] * count)
    assert weights(CURRENT_ENGLISH, text) == pytest.approx(weights(ENGLISH, text), rel=1e-6)


# Languages

MIXED = Bm25(Bm25Settings(languages={"de": "german", "fr": "french"}), CURRENT)


def finds(bm25: Bm25, query: str, text: str, lang: str | None = None) -> bool:
    """True if the query and the document share a term."""
    asked = bm25.query(query)
    made, _ = bm25.payload({"text": text, **({"lang": lang} if lang is not None else {})})
    return asked is not None and not {*asked.indices}.isdisjoint(made.indices)


@pytest.mark.parametrize(
    ("query", "text", "lang"),
    [
        ("kopfhoerer", "Kopfhörer", "de"),
        ("Kopfhörer", "Kopfhoerer", "de"),
        ("KOPFHÖRERN", "Kopfhörer", "de-AT"),
        ("haus", "alte Häuser", "DE"),
        ("fusskörbe", "Fußkorb", "de"),
        ("chevaux", "cheval chevaux", "fr"),
        ("outil", "des outils", "fr"),
        ("lanterns", "a lantern", "en"),
        ("lanterns", "a lantern", None),
        ("lanterns", "a lantern", "xx"),
        ("wh 1000 xm5", "der WH-1000XM5", "de"),
    ],
)
def test_a_document_is_found_by_the_words_of_its_language(query: str, text: str, lang: str | None) -> None:
    """Its field `lang` chooses stems and stop words; a query is searched in each language, and has no language."""
    assert finds(MIXED, query, text, lang)


@pytest.mark.parametrize("other", ["ts-100-s", "ts-100-es", "ts-100-en"])
def test_what_stands_behind_a_number_is_no_ending(other: str) -> None:
    """An identifier is no other one in the plural, in whatever language; with its ending it is found."""
    forms = (each.replace("-", "") for each in ("ts-100", other))
    terms, others = (set(MIXED.terms_of(each, stop_words=True)) for each in forms)
    assert terms.isdisjoint(others)
    assert others & set(MIXED.payload({"text": other, "lang": "de"})[0].indices)


def test_each_language_has_its_own_stems() -> None:
    """English stems do not touch German documents, and stop words of one language are words of others."""
    assert not finds(MIXED, "haus", "alte Häuser", "en")
    assert not finds(Bm25(analysis=CURRENT), "kopfhoerer", "Kopfhörer", "de")
    german, english = (MIXED.payload({"text": "der die das", "lang": lang})[0] for lang in ("de", "en"))
    assert set(english.indices) < set(german.indices)
    assert (len(german.indices), len(english.indices)) == (4, 3)


@pytest.mark.parametrize(
    ("query", "words", "lang"),
    [
        ("wifi is weak upstairs", "wifi weak upstairs", None),
        ("how long is a clip kept", "long clip kept", None),
        ("wie lange ist die Garantie", "lange garantie", None),
        ("Batterie der Klingel", "batterie klingel", None),
        ("combien de temps dure la batterie", "combien temps dure batterie", None),
        # A word that names something in another language does not say that the query is in its own.
        ("red hat", "red hat", None),
        ("waste bin for the kitchen", "waste bin kitchen", None),
        ("die cutting machine for paper", "die cutting machine paper", None),
        ("er hat die Lampe", "lampe", None),
        # A query that does not say its language is in the collection's own.
        ("lamp not working", "lamp working", None),
        ("collier or blanc", "collier blanc", None),
        ("le collier or blanc", "collier or blanc", None),
        # The query's own field goes before its words.
        ("collier or blanc", "collier or blanc", "fr"),
        ("red hat", "red", "de-AT"),
        ("er hat die Lampe", "er hat die lampe", "en"),
        ("er hat die Lampe", "er hat die lampe", "xx"),
        # Where nothing else is there, they are what is searched.
        ("die", "die", None),
        ("was ist das", "was ist das", None),
        ("not", "not", "de"),
    ],
)
def test_stop_words_of_a_querys_language_are_no_terms_of_it(query: str, words: str, lang: str | None) -> None:
    """In a collection of several languages, too; nor are they marked in a text."""
    searched = [each.text for each in MIXED.words(query, lang) if each.weight and not each.text.startswith('"')]
    assert searched == words.split()
    (passage,) = MIXED.read(query, lang)[1]().passages(query, 1)
    assert [passage.text[start:end].lower() for start, end in passage.highlights] == words.split()


@pytest.mark.parametrize("query", ["die Lampe wh-1000", "was ist das"])
def test_a_query_is_analysed_once(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its terms, its languages, and what finds its words in texts."""
    analysed: list[str] = []

    def count(text: str, *, query: bool) -> list[Token]:
        analysed.append(text)
        return analyse(text, query=query)

    for module in (analysers, passages):
        monkeypatch.setattr(module, "analyse", count)
    words, matcher = MIXED.read(query)
    assert words
    assert matcher() is not None
    assert analysed == [query]


SINGLE = {
    each: Bm25(Bm25Settings(language=name), CURRENT)
    for each, name in {"en": "english", "de": "german", "fr": "french"}.items()
}


ALIKE = "the die hat or not lampe lamp is a le für 12 ? xm5".split()  # noqa: SIM905


@given(st.lists(st.sampled_from(ALIKE), max_size=6).map(" ".join), st.sampled_from([None, *SINGLE]))
def test_a_query_in_several_languages_has_the_words_that_it_has_in_its_own(text: str, lang: str | None) -> None:
    """It has terms if it has any in one of them, and where it says its language, it has the words that it has in that;
    if it does not, some of its words are no more than those.
    """
    words = [each.text for each in MIXED.words(text, lang)]
    by_language = {tag: [each.text for each in model.words(text)] for tag, model in SINGLE.items()}
    assert bool(words) == any(by_language.values())
    plain = {each for each in words if not each.startswith('"')}
    if lang is not None:
        assert plain == {each for each in by_language[lang] if not each.startswith('"')}
    else:
        assert any(plain <= {*others} for others in by_language.values())


def test_accents_count_by_choice() -> None:
    """Folded, they do not, on Latin, Greek and Cyrillic letters; umlauts of German stay what they are."""
    folded = Bm25(Bm25Settings(accents="fold", languages={"de": "german"}), CURRENT)
    assert finds(folded, "cafe", "un café")
    assert finds(folded, "ομπρελα", "ομπρέλα")
    assert not finds(MIXED, "cafe", "un café")
    assert finds(folded, "hoerer", "Hörer", "de")
    for query, text in [
        *[("lodz", "Łódź"), ("soren", "Søren"), ("coeur", "cœur"), ("aero", "Ærø"), ("do choi", "Đồ chơi")],
        *[("strasse", "Straße"), ("kirmizi", "KIRMIZI kırmızı"), ("замок", "за\u0301мок"), ("елка", "ёлка")],
    ]:
        assert finds(folded, query, text), text


@pytest.mark.parametrize(
    ("lang", "query", "text"),
    [
        *[("german", *pair) for pair in [("Frau", "Frauen"), ("blau", "blauen"), ("neues", "neuer"), ("Bau", "Bauen")]],
        *[("german", *pair) for pair in [("Mauer", "Mauern"), ("Steuer", "Steuern"), ("teuer", "teuerer")]],
        *[
            ("german", *pair)
            for pair in [("Müller", "Mueller"), ("Tür", "tuer"), ("geuebt", "geübt"), ("Quelle", "Quellen")]
        ],
        *[("de", "Müller", "Mueller"), ("tr", "ışık", "IŞIK")],
        *[("turkish", *pair) for pair in [("istanbul", "İSTANBUL"), ("ışık", "IŞIK"), ("kırmızı", "KIRMIZI")]],
    ],
)
@pytest.mark.parametrize("accents", ["keep", "fold"])
def test_words_of_a_language_are_found_in_its_forms(lang: str, query: str, text: str, accents: Any) -> None:
    """In inflections, capitals and spellings, in both directions."""
    model = Bm25(Bm25Settings(language=lang, accents=accents), CURRENT)
    assert finds(model, query, text)
    assert finds(model, text, query)


@pytest.mark.parametrize(("query", "text"), [("красный", "красная"), ("новый", "нового"), ("синий", "синяя")])
def test_folded_accents_leave_the_endings_of_a_language(query: str, text: str) -> None:
    """A Cyrillic й is a letter, and no accented и."""
    model = Bm25(Bm25Settings(language="russian", accents="fold"), CURRENT)
    assert finds(model, query, text)


@pytest.mark.parametrize("lang", ["de", "DE", "de-AT", "de_AT", "de_de", " de "])
def test_a_language_has_the_forms_of_its_name(lang: str) -> None:
    """As other programs write it, in documents."""
    assert finds(MIXED, "haus", "alte Häuser", lang)


def test_a_word_has_its_terms_whatever_its_small_form() -> None:
    """That of `İ` holds an accent, which would cut it: outside of Turkish it is an I."""
    asked = CURRENT_ENGLISH.query("İstanbul ISTANBUL istanbul")
    assert asked is not None
    assert [asked.indices] == [CURRENT_ENGLISH.document(text).indices for text in ("İstanbul",)]


@given(st.text("ab äöü雨伞12-"))
def test_more_languages_never_lose_terms(text: str) -> None:
    """A query in several languages has the terms of the one alone, and none weighs less."""
    alone, several = CURRENT_ENGLISH.query(text), MIXED.query(text)
    if alone is not None:
        assert several is not None
        found = dict(zip(several.indices, several.values, strict=True))
        assert all(found.get(term, 0) >= weight for term, weight in zip(alone.indices, alone.values, strict=True))


def test_a_language_that_the_model_does_not_know_is_an_error() -> None:
    """At start, like the main one."""
    with pytest.raises(ConfigError, match="bm25"):
        Bm25(Bm25Settings.model_construct(languages={"xx": "klingon"}), CURRENT)
