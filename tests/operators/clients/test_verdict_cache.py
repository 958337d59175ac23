"""Verdicts kept: of which candidates, and for how many."""

from hypothesis import given
from hypothesis import strategies as st

from operators.clients.model_caches import VerdictCache

texts = st.text(st.characters(exclude_categories=()), max_size=4)
candidates = st.dictionaries(texts, texts, min_size=1, max_size=4)


def test_what_another_namespace_asked_is_not_known() -> None:
    """The same query about the same texts is judged once for each namespace; no boundary between the two moves."""
    cache = VerdictCache(10)
    cache.put("acme", "q", {"a": "one"}, {"a": 0.1})
    assert cache.known("other", "q", {"a": "one"}) is None
    assert cache.known("acmeq", "", {"a": "one"}) is None
    assert cache.known("acme", "q", {"a": "one"}) == {"a": 0.1}


@given(texts, candidates, st.data())
def test_a_verdict_is_of_these_texts_in_this_order(query: str, documents: dict[str, str], data: st.DataObject) -> None:
    """Whatever was left out comes back left out, for documents of other ids too; any other texts are unknown."""
    cache = VerdictCache(100)
    kept = data.draw(st.sets(st.sampled_from(list(documents))))
    scores = {id_: float(place) for place, id_ in enumerate(documents) if id_ in kept}
    cache.put("acme", query, documents, scores)
    assert cache.known("acme", query, documents) == scores
    renamed = {f"{id_}-": text for id_, text in documents.items()}
    assert cache.known("acme", query, renamed) == {f"{id_}-": score for id_, score in scores.items()}
    other = data.draw(candidates)
    if list(other.values()) != list(documents.values()):
        assert cache.known("acme", query, other) is None
    assert cache.known("acme", f"{query}?", documents) is None


def test_the_longest_unused_leave() -> None:
    """Beyond its size in candidates verdicts leave, the one not asked for longest first; a larger one isn't kept."""
    cache = VerdictCache(4)
    for query in "abc":
        cache.put("acme", query, {"1": "x", "2": "y"}, {"2": 1.0})
        cache.known("acme", "a", {"1": "x", "2": "y"})
    assert [cache.known("acme", query, {"1": "x", "2": "y"}) for query in "abc"] == [{"2": 1.0}, None, {"2": 1.0}]
    cache.put("acme", "d", {name: name for name in "12345"}, {})
    assert cache.known("acme", "d", {name: name for name in "12345"}) is None
    assert cache.known("acme", "a", {"1": "x", "2": "y"}) == {"2": 1.0}
