"""Grouping: one candidate a group, compared with a plain second implementation on random candidates."""

import statistics
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.grouping import Grouping, first_of_groups, group, key_of
from schemas.query import GroupScore

VALUES: list[Any] = [None, "", "a", "1", 1, 1.0, True, False, 0, 2**63, 0.5, ["a"], ["a", "b"], [], {"a": 1}, [["a"]]]
SCORES: list[GroupScore] = ["max", "sum", "avg"]
ABSENT = object()


def candidates() -> st.SearchStrategy[list[Candidate]]:
    """Candidates, best first, with any values in the field, or without it."""
    values = st.sampled_from([*VALUES, ABSENT])
    scored = st.lists(st.tuples(st.integers(-8, 8), values), max_size=20)

    def ranked(pairs: list[tuple[int, Any]]) -> list[Candidate]:
        best_first = sorted(pairs, key=lambda pair: -pair[0])
        payloads = [{} if value is ABSENT else {"m": {"parent": value}} for _, value in best_first]
        return [
            Candidate(f"c{place}", float(score), payload)
            for place, ((score, _), payload) in enumerate(zip(best_first, payloads, strict=True))
        ]

    return scored.map(ranked)


def naive_key(candidate: Candidate) -> tuple[str, Any]:
    """The group of a candidate: by its key and the key's type, or by the candidate's own id."""
    value = candidate.payload.get("m", {}).get("parent")
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if type(value) is float and value == int(value):
        value = int(value)
    fits = type(value) in {str, bool} or (type(value) is int and abs(value) < 2**63)
    return (type(value).__name__, value) if fits else ("alone", candidate.id)


def test_a_name_in_quotes_is_found() -> None:
    """A field whose name stands in double quotes groups by the values that it has, whatever characters are in it."""
    payload = {"metadata": {"page number": 7, "a.b": "x"}}
    assert key_of(payload, 'metadata."page number"') == 7
    assert key_of(payload, 'metadata."a.b"') == "x"


@pytest.mark.parametrize("score", SCORES)
@given(ranked=candidates())
def test_groups_are_those_of_a_plain_implementation(score: GroupScore, ranked: list[Candidate]) -> None:
    """Each group's best candidate, the group's score, the order of the groups, and what is in them are the same."""
    found, groups = group(ranked, Grouping("m.parent", 1, score))
    combinations: dict[str, Callable[[list[float]], float]] = {"max": max, "sum": sum, "avg": statistics.fmean}
    expected = []
    combine = combinations[score]
    for key in dict.fromkeys(map(naive_key, ranked)):
        members = [each for each in ranked if naive_key(each) == key]
        expected.append((combine([each.score for each in members]), members))
    expected.sort(key=lambda pair: -pair[0])
    assert [each.score for each in found] == pytest.approx([each for each, _ in expected])
    assert [list(groups[each.id].candidates) for each in found] == [members for _, members in expected]
    assert [each.id for each in found] == [members[0].id for _, members in expected]


@given(ranked=candidates())
def test_the_first_of_each_group_are_found(ranked: list[Candidate]) -> None:
    """The first documents of the groups are those that stand for them."""
    found, _ = group(ranked, Grouping("m.parent", 1, "max"))
    places = first_of_groups([each.payload for each in ranked], "m.parent")
    assert [ranked[place].id for place in places] == [each.id for each in found]


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *(("a", "a"), (["a"], "a"), (2.0, 2), (True, True), ("", "")),
        *((None, None), ([], None), (["a", "b"], None), (0.5, None), ({"a": 1}, None), (float("inf"), None)),
    ],
)
def test_a_key_is_a_string_an_integer_or_a_boolean(value: Any, key: Any) -> None:
    """Other values, and lists of several, are no key: their documents are groups of their own."""
    found = key_of({"parent": value}, "parent")
    assert (type(found), found) == (type(key), key)
