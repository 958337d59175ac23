"""Scores kept: of which pair, for how many, and what a left-out document is."""

from hypothesis import given
from hypothesis import strategies as st

from operators.clients.model_caches import ScoreCache


def test_what_another_namespace_asked_is_not_known() -> None:
    """The same query about the same text is scored once for each namespace: its time tells nothing of the others."""
    cache = ScoreCache(10)
    cache.put("acme", "q", {"a": "one"}, {"a": 0.1})
    assert cache.known("other", "q", {"a": "one"}) == {}
    assert cache.known("acme", "q", {"a": "one"}) == {"a": 0.1}


def test_a_pair_is_known_by_query_and_text() -> None:
    """The same text under another id has its score; another text or another query hasn't."""
    cache = ScoreCache(10)
    cache.put("acme", "q", {"a": "one", "b": "two"}, {"a": 0.1, "b": 0.2})
    assert cache.known("acme", "q", {"x": "two", "y": "three", "a": "two"}) == {"x": 0.2, "a": 0.2}
    assert cache.known("acme", "Q", {"a": "one"}) == {}


def test_left_out_is_left_out_beside_others() -> None:
    """It isn't kept, and a model that leaves documents out has all of a query's before it each time."""
    cache = ScoreCache(10)
    cache.put("acme", "q", {"a": "one", "b": "two"}, {"a": 0.1, "b": 0.2})
    cache.put("acme", "q", {"c": "three", "d": "four"}, {"c": 0.3})
    assert cache.known("acme", "q", {"a": "one", "d": "four"}) == {}
    assert cache.known("acme", "q", {"a": "one", "b": "two"}) == {"a": 0.1, "b": 0.2}


def test_what_is_learned_later_is_added() -> None:
    """A query's pairs are kept together, the latest word of each."""
    cache = ScoreCache(10)
    cache.put("acme", "q", {"a": "one"}, {"a": 0.1})
    cache.put("acme", "q", {"b": "two", "c": "one"}, {"b": 0.2, "c": 0.3})
    assert cache.known("acme", "q", {"a": "one", "b": "two"}) == {"a": 0.3, "b": 0.2}


def test_the_longest_unused_leave() -> None:
    """Beyond its size in pairs whole queries leave, the one that wasn't asked for longest first."""
    cache = ScoreCache(4)
    for query in "abc":
        cache.put("acme", query, {"1": "x", "2": "y"}, {"1": 1.0, "2": 2.0})
        cache.known("acme", "a", {"1": "x"})
    assert [bool(cache.known("acme", query, {"1": "x"})) for query in "abc"] == [True, False, True]


def test_a_query_beyond_the_size_is_not_kept() -> None:
    """It takes nobody's place."""
    cache = ScoreCache(2)
    cache.put("acme", "a", {"1": "x"}, {"1": 1.0})
    cache.put("acme", "b", {name: name for name in "123"}, dict.fromkeys("123", 1.0))
    assert cache.known("acme", "b", {"1": "1"}) == {}
    assert cache.known("acme", "a", {"1": "x"}) == {"1": 1.0}


texts = st.text(st.characters(exclude_categories=()), max_size=4)


@given(st.dictionaries(texts, texts, max_size=6), st.dictionaries(texts, texts, max_size=6))
def test_nothing_is_known_of_what_was_not_said(said: dict[str, str], asked: dict[str, str]) -> None:
    """Whatever the texts, lone surrogates among them: a score comes back for the texts it was given for alone."""
    cache = ScoreCache(100)
    score_of = {text: float(number) for number, text in enumerate(said.values())}
    cache.put("acme", "q", said, {id_: score_of[text] for id_, text in said.items()})
    assert cache.known("acme", "q", asked) == {id_: score_of[text] for id_, text in asked.items() if text in score_of}
