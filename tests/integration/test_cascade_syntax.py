"""The keyword syntax, through the running flow with the profile `fast`: each operator, and what is malformed."""

import pytest

from tests.integration.cascade import System, ids, leg

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
    "NOT sea": {"the", "runs", "shore"},
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
        assert answer["warnings"] == [], text
        assert (answer["status"], answer["backends_used"]) == ("ok", ["keyword"]), text


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


def test_the_default_analyser_stems_and_drops_stop_words(kitchen: System) -> None:
    """English by default: `bakes` finds `bake`, and a query of stop words only is `no_terms`, with a warning."""
    stemmed, stopped = kitchen.answers([{"text": text, "profile": "fast"} for text in ("bakes", "what is it")])
    assert {"bread", "cake"} <= set(ids(stemmed))
    assert leg(stopped, "keyword") == ("skipped", "no_terms")
    assert stopped["results"] == []
    assert stopped["warnings"] == ["no_terms: the text has no word that the keyword leg looks for"]


def test_expressions_are_not_stemmed(kitchen: System) -> None:
    """With an operator words are matched as they stand, and stop words can be found."""
    whole, phrase = kitchen.answers(
        [{"text": text, "profile": "fast"} for text in ("ovens AND how", '"is not wanted"')]
    )
    assert ids(whole) == ["ovens"]
    assert ids(phrase) == ["cake"]
