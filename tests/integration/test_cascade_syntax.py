"""The keyword syntax, through the running flow with the profile `fast`: each operator, and what is malformed."""

import re

import pytest

from tests.integration.cascade import Json, System, ids, leg

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

ALL = {"the", "runs", "shore", "sister"}

MATCHES: dict[str, set[str]] = {
    # Bare words are alternatives; without stop words and stems every word counts as it stands.
    "sea": {"the", "runs", "shore"},
    "running shore": {"the", "runs", "shore"},
    "run": {"the"},
    "RUNS": {"runs"},
    "no one": {"shore"},
    # Phrases
    '"shore sea"': {"shore"},
    '"sea shore"': {"runs"},
    '"Sea no"': set(),
    '"sea"': {"the", "runs", "shore"},
    # Operators, in upper case only
    "sea AND shore": {"runs", "shore"},
    "sailors OR sailor": {"the", "runs"},
    "sea NOT shore": {"the"},
    "sea AND NOT shore": {"the"},
    "sea and shore": {"the", "runs", "shore"},
    "sea not one": {"the", "runs", "shore"},
    # Side by side binds tightest, then NOT, AND, OR
    '"sea" shore': {"runs", "shore"},
    "sailors OR sea shore": {"the", "runs", "shore"},
    "sailors OR sea AND one": {"the", "shore"},
    "(sailors OR shore) AND sea": {"the", "runs", "shore"},
    "sailors OR shore NOT one": {"the", "runs"},
    "(sailors OR shore) NOT one": {"the", "runs"},
    "sea NOT shore OR one": {"the", "shore"},
    "shore AND (a OR one)": {"runs", "shore"},
    # Prefixes
    "sail*": {"the", "runs"},
    "run* AND shor*": {"runs"},
    "Sho*": {"runs", "shore"},
    "zebra*": set(),
    # Columns
    "title:sea": {"the", "shore"},
    "content:sea": {"runs", "shore"},
    "TITLE:shore": {"runs"},
    "title:sea content:shore": {"shore"},
    'title:"of the"': {"the"},
    "title:sh*": {"runs"},
    "sea NOT title:sea": {"runs"},
    # Plain words
    "http:": {"sister"},
    "12:": {"sister"},
    "sister's": {"runs", "sister"} - {"runs"},
    "letter NEAR sea": {"sister", "the", "runs", "shore"},
    "(sea)": {"the", "runs", "shore"},
}

SPELLINGS: dict[str, set[str]] = {
    "content:(letter OR sailors)": {"sister", "the"},
    '"shore se"*': {"shore"},
    '"sea sho" * NOT title:sea': {"runs"},
    "sail *": {"the", "runs"},
    "content : sea": {"runs", "shore"},
    "title: sea": {"the", "shore"},
    "-title:sea": {"runs", "shore"},
    "- {title}: sea": {"runs", "shore"},
    "{title content}: sea NOT one": {"the", "runs"},
    '"title": sea': {"the", "shore"},
}

UNSUPPORTED: dict[str, list[str]] = {
    "NEAR(letter sea)": ["NEAR"],
    "^letter sea": ["^"],
    "letter + sea": ["+"],
    "sea^2 +letter": ["^", "+"],
}

MALFORMED: dict[str, set[str]] = {
    "sea AND": {"the", "runs", "shore"},
    "OR letter": {"sister"},
    '"sea shore': {"the", "runs", "shore"},
    "(sea AND shore": {"the", "runs", "shore"},
    "sea) AND shore": {"the", "runs", "shore"},
    "sea AND OR letter": {"the", "runs", "shore", "sister"},
    "() AND letter": {"sister"},
}


def test_what_the_syntax_matches(plain: System) -> None:
    """Each text finds the documents that it means, through the keyword leg alone, without a warning."""
    answers = plain.answers([{"text": text, "profile": "fast", "limit": 50} for text in MATCHES])
    for (text, expected), answer in zip(MATCHES.items(), answers, strict=True):
        assert set(ids(answer)) == expected, text
        assert len(answer["warnings"]) == (not expected), text
        assert (answer["status"], answer["backends_used"]) == ("ok", ["keyword"] if expected else []), text


@pytest.mark.parametrize("text", SPELLINGS)
def test_the_spellings_of_fts5(plain: System, text: str) -> None:
    """Columns, prefixes, and phrases that end in one are read however FTS5 lets them be written."""
    answer = plain.ask({"text": text, "profile": "fast", "limit": 50})
    assert (set(ids(answer)), answer["warnings"]) == (SPELLINGS[text], [])


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_what_is_not_supported_is_named(plain: System, text: str) -> None:
    """An operator of FTS5 that isn't one here is plain text, which a warning says by its name."""
    answer = plain.ask({"text": text, "profile": "fast", "limit": 50})
    assert set(ids(answer)) == {"sister", "the", "runs", "shore"}
    for warning, name in zip(answer["warnings"], UNSUPPORTED[text], strict=True):
        assert f"no operator {name}:" in warning


def test_what_is_malformed_is_read_as_words(plain: System) -> None:
    """A malformed expression finds what its words do, with a warning that quotes nothing of it."""
    answers = plain.answers([{"text": text, "profile": "fast", "limit": 50} for text in MALFORMED])
    for (text, expected), answer in zip(MALFORMED.items(), answers, strict=True):
        assert set(ids(answer)) == expected, text
        (warning,) = answer["warnings"]
        assert "malformed" in warning
        assert "letter" not in warning


@pytest.mark.parametrize("recipe", ["hybrid", "rrf", "signals", "decay"])
def test_a_not_filters_all_legs(plain: System, recipe: str) -> None:
    """No leg brings back what an expression excludes: not the vector leg, and not the structured one."""
    nearest: Json = {"recipe": recipe, "vector": [1.0] + [0.0] * 383, "limit": 50}
    excluded: dict[str, set[str]] = {
        "NOT sea": {"sister"},
        "letter NOT sea": {"sister"},
        "letter AND (NOT sea)": {"sister"},
        "(NOT shore) OR (letter NOT shore)": {"the", "sister"},
        # The legs that don't search by words leave out whatever may hold such a phrase.
        'letter NOT "sea sho"*': {"the", "sister"},
        "letter NOT (sea AND sailor)": {"the", "shore", "sister"},
    }
    if recipe == "rrf":
        nearest["overrides"] = {"rrf": {"weights": {"structured": 0.5}}}
    answers = plain.answers([{**nearest, "text": text} for text in excluded])
    for (text, expected), answer in zip(excluded.items(), answers, strict=True):
        found = set(ids(answer))
        assert found <= expected, text
        # Documents without a vector come by their words, or by the structured leg.
        assert found == expected or recipe != "rrf", text


def test_an_exclusion_alone_has_no_keyword_hits(plain: System) -> None:
    """It says what is not wanted, and nothing to rank by: no results by keywords, and a warning."""
    answer = plain.ask({"text": "NOT sea", "profile": "fast"})
    assert (answer["status"], answer["results"], answer["backends_used"]) == ("ok", [], [])
    assert leg(answer, "keyword") == ("skipped", "no_terms")
    assert any("excludes without naming anything" in warning for warning in answer["warnings"])


@pytest.mark.parametrize(
    "text", ['"no such phrase"', "sea AND desert", "dese* NOT sea", 'Cannot invoke "length()" here']
)
def test_an_expression_without_a_match_is_told(plain: System, text: str) -> None:
    """A pasted text with quotes may be meant as words."""
    answer = plain.ask({"text": text, "profile": "fast"})
    assert (answer["status"], answer["results"]) == ("ok", [])
    assert any("as a keyword expression" in warning for warning in answer["warnings"])


def test_a_column_named_essence_is_the_title(plain: System) -> None:
    """By default, as `title` is."""
    answer = plain.ask({"text": "essence:sea", "profile": "fast"})
    assert (set(ids(answer)), answer["warnings"]) == ({"the", "shore"}, [])


def test_the_letter_behind_an_apostrophe_is_a_word(plain: System) -> None:
    """Without stemming, `sister's` finds a document that has only `s`."""
    assert ids(plain.ask({"text": "sister's", "profile": "fast"})) == ["sister"]


def test_punctuation_never_raises(plain: System) -> None:
    """Any sign alone, and among words, is a query."""
    signs = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»“”…"
    ended = plain.together([{"text": text, "profile": "fast"} for sign in signs for text in (sign, f"sea{sign}a b")])
    assert {each.kind for each in ended} == {"result"}
    assert {each.value["status"] for each in ended} == {"ok"}


def test_the_best_match_comes_first(plain: System) -> None:
    """An expression's matches are ranked by BM25 over its words; matches by a prefix alone come after."""
    first, *others = ids(plain.ask({"text": "runs OR sail*", "profile": "fast"}))
    assert (first, others) == ("runs", ["the"])


def test_the_default_analyser_stems_and_leaves_out_stop_words(kitchen: System) -> None:
    """English by default: `bakes` finds `bake`; stop words count only in a query that has nothing else."""
    texts = ("bakes", "bakes the", "the of", "?!")
    stemmed, beside, stopped, nothing = kitchen.answers(
        [{"text": text, "recipe": "keyword", "profile": "fast", "limit": 200} for text in texts]
    )
    assert {"bread", "cake"} <= set(ids(stemmed))
    assert ids(beside) == ids(stemmed)
    assert leg(stopped, "keyword") == ("ok", None)
    assert {*re.findall(r"[a-z]+", stopped["results"][0]["text"].lower())} & {"the", "of"}
    assert stopped["warnings"] == []
    assert leg(nothing, "keyword") == ("skipped", "no_terms")
    assert nothing["warnings"] == ["no_terms: the text has no word that the keyword leg looks for"]


def test_expressions_are_not_stemmed(kitchen: System) -> None:
    """With an operator words are matched as they stand, and stop words can be found."""
    whole, phrase = kitchen.answers(
        [{"text": text, "profile": "fast"} for text in ("ovens AND how", '"is not wanted"')]
    )
    assert ids(whole) == ["ovens"]
    assert ids(phrase) == ["cake"]
