"""Returned: the parts of documents that results have, and the fields that a source never sees."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from operators.collections.analysers import CURRENT, Bm25
from operators.query.returned import View, hide, is_hidden, select
from operators.text.analysis import analyse
from operators.text.passages import Matcher
from schemas.query import Returned

TEXT = "Nothing is here. " * 30 + "The red lamp costs ten euros."
ENGLISH = Bm25(analysis=CURRENT)
MATCHER = Matcher(analyse("lamp", query=True), lambda word: [hash(word.lower())])
PAYLOAD = {"title": "t", "cost": 1, "meta": {"author": "a", "cost": 2}, "variants": [{"cost": 3, "size": "l"}, "x"]}
NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map(".".join), max_size=3)
PAYLOADS = st.recursive(
    st.integers(), lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2), max_leaves=12
)


def view(hidden: tuple[str, ...] = (), **returned: Any) -> View:
    """The parts by what a query says."""
    return View(Returned(**returned), hidden, MATCHER)


def test_a_query_that_says_nothing_gets_all() -> None:
    """Without `return` the whole text and payload are there, and nothing more."""
    assert View(None).document(TEXT, PAYLOAD) == {"text": TEXT, "payload": PAYLOAD}


def test_text_is_that_much_of_the_best_passage() -> None:
    """A number gives so many characters of the best passage, with its match; `none` no text, `full` all of it."""
    (passage,) = MATCHER.passages(TEXT, 1)
    assert view(text=30).document(TEXT, {})["text"] == "The red lamp costs ten euros."
    long = passage.highlights[0][1]
    assert view(text=long).document(TEXT, {})["text"] == TEXT[passage.start :][:long]
    assert view(text="none").document(TEXT, {}) == {"text": None, "payload": {}}
    assert view(text="full").document(TEXT, {}) == {"text": TEXT, "payload": {}}
    assert view(text=10).document(None, {}) == {"text": None, "payload": {}}


def test_passages_are_in_the_text_and_highlights_in_the_passage() -> None:
    """A passage's start leads to it in the whole text, whatever of the text is returned."""
    (passage,) = view(text="none", passages=2).document(TEXT, {})["passages"]
    assert TEXT[passage["start"] :].startswith(passage["text"])
    assert [passage["text"][a:b] for a, b in passage["highlights"]] == ["lamp"]
    assert view(passages=2).document(None, {})["passages"] == []


def test_fields_are_chosen_by_their_paths() -> None:
    """A path goes through objects and arrays; what is not there is left out."""
    chosen = view(fields=["title", "variants.size", "meta.author", "none"]).document(None, PAYLOAD)["payload"]
    assert chosen == {"title": "t", "meta": {"author": "a"}, "variants": [{"size": "l"}]}
    assert view(fields=["meta", "meta.author"]).document(None, PAYLOAD)["payload"] == {"meta": PAYLOAD["meta"]}
    assert view(fields=[]).document(None, PAYLOAD)["payload"] == {}


def test_hidden_fields_are_in_no_part() -> None:
    """A hidden field is gone wherever it is, also if the query asks for it; a hidden text has no passages."""
    parts = view(("cost", "meta", "variants.cost", "text"), fields=["cost", "meta.cost", "variants"], passages=1)
    assert parts.document(TEXT, PAYLOAD) == {
        "text": None,
        "payload": {"variants": [{"size": "l"}, "x"]},
        "passages": [],
    }
    assert "cost" not in View(None, ("cost",)).document(TEXT, PAYLOAD)["payload"]
    assert select({"a b": {"c.d": 1, "e": 2}, "f": 3}, ['"a b"."c.d"']) == {"a b": {"c.d": 1}}
    assert hide({"a b": {"c.d": 1, "e": 2}}, ['"a b"."c.d"']) == {"a b": {"e": 2}}
    assert hide({"meta.cost": 1, "meta": {"cost": 1}}, ["meta.cost"]) == {"meta": {}}


@given(payload=st.dictionaries(NAMES, PAYLOADS), paths=PATHS)
def test_nothing_is_left_of_what_is_hidden(payload: dict[str, Any], paths: list[str]) -> None:
    """Choosing hidden fields gives nothing of them; what else there was is there as it was."""
    left = hide(payload, paths)
    assert all(_values(left, path.split(".")) == [] for path in paths)
    assert hide(left, paths) == left
    chosen = select(payload, paths)
    for path in paths:
        assert _values(chosen, path.split(".")) == _values(payload, path.split("."))


def _values(value: Any, names: list[str]) -> list[Any]:
    """The values at a path: of arrays each element's."""
    if not names:
        return [value]
    if isinstance(value, list):
        return [found for each in value for found in _values(each, names)]
    return _values(value[names[0]], names[1:]) if isinstance(value, dict) and names[0] in value else []


@pytest.mark.parametrize("path", ["cost", "cost.net", "cost[].net", '"cost"', "cost[0]"])
def test_however_a_hidden_field_is_written(path: str) -> None:
    """A field inside a hidden one is hidden, too, however the path is written."""
    assert is_hidden(path, ["price", "cost"])
    assert not is_hidden("costs", ["cost"])
    assert not is_hidden("meta", ["meta.cost"])


def test_the_first_that_says_something_counts() -> None:
    """A part that the query leaves open is its policy's, and then its profile's."""
    assert Returned(text=5).over(Returned(text="none", passages=2)) == Returned(text=5, passages=2)
    assert Returned(passages=0).over(Returned(passages=2)) == Returned(passages=0)
    assert Returned(fields=[]).over(Returned(fields=["a"])).fields == []


@pytest.mark.parametrize("value", [{"text": 0}, {"text": "some"}, {"text": True}, {"passages": 11}, {"fields": ["_a"]}])
def test_what_makes_no_sense_is_refused(value: dict[str, Any]) -> None:
    """A wrong part is refused."""
    with pytest.raises(ValidationError):
        Returned(**value)


@pytest.mark.parametrize("before", ["lorem ipsum ", "x", "東", "lorem\n", "👩🏽‍🚀 ", "<br>"])
@pytest.mark.parametrize("size", [400, 1_000, 8_000])
def test_the_part_with_the_match_is_read(before: str, size: int) -> None:
    """Of a text that is too long to be read whole: what it is made of, and where the word is, makes no difference."""
    filler = before * (40_000 // len(before))
    text = f"{filler} here a wonderful walrus swims {filler}"
    matcher = Matcher(analyse("wonderful walruses", query=True), ENGLISH.terms_of)
    for returned in (Returned(passages=1), Returned(text=200), Returned(text=200, passages=1)):
        found = View(returned, (), matcher, size).document(text, {})
        [passage] = found.get("passages", [None])
        if passage is not None:
            assert text[passage["start"] :].startswith(passage["text"])
            shown = [passage["text"][first:last] for first, last in passage["highlights"]]
            assert shown == ["wonderful", "walrus"]
        if returned.text is not None:
            assert "walrus" in found["text"]
    assert "walrus" in View(None, (), matcher, size).best(text)
