"""The two halves: every query in one of them, fairly, and always in the same."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.metrics import JudgedQuery, halves

asked = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("tuvwxyz")), max_size=40)


def queries(asked: list[tuple[str, str]]) -> list[JudgedQuery]:
    """Queries of these namespaces and texts."""
    return [JudgedQuery(f"q{number}", *each) for number, each in enumerate(asked)]


@given(asked, st.integers(0, 9))
def test_every_query_is_in_one_half(given_: list[tuple[str, str]], seed: int) -> None:
    """None is lost and none is in both."""
    tuning, held_out = halves(queries(given_), seed)
    assert sorted(tuning + held_out) == sorted(query.query_id for query in queries(given_))


@given(asked, st.integers(0, 9), st.randoms())
def test_the_order_of_the_file_does_not_matter(given_: list[tuple[str, str]], seed: int, random: Random) -> None:
    """The same queries in another order have the same halves."""
    listed = queries(given_)
    expected = halves(listed, seed)
    random.shuffle(listed)
    assert halves(listed, seed) == expected


@given(asked, st.integers(0, 9))
def test_queries_are_stratified(given_: list[tuple[str, str]], seed: int) -> None:
    """In each namespace and in all, the halves differ by at most as many queries as ask the same."""
    listed = queries(given_)
    of = {query.query_id: query.namespace for query in listed}
    largest = max(Counter(given_).values(), default=0)
    tuning, held_out = halves(listed, seed)
    first, second = Counter(of[query] for query in tuning), Counter(of[query] for query in held_out)
    assert all(abs(first[name] - second[name]) <= largest for name in of.values())
    assert abs(len(tuning) - len(held_out)) <= largest


@given(asked, st.integers(0, 9))
def test_a_question_is_in_one_half(given_: list[tuple[str, str]], seed: int) -> None:
    """Queries of one namespace that ask the same don't tell the one half what the other holds."""
    listed = queries(given_)
    tuning, held_out = (set(half) for half in halves(listed, seed))
    for question in set(given_):
        same = {query.query_id for query in listed if query[1:] == question}
        assert same <= tuning or same <= held_out


def test_another_seed_is_another_split() -> None:
    """Seeds give halves of their own, and one seed always the same."""
    listed = [JudgedQuery(f"q{number}", f"n{number % 8}", f"t{number}") for number in range(40)]
    assert len({halves(listed, seed) for seed in range(5)}) > 1
    assert halves(listed, 1) == halves(listed, 1)


def test_halves_are_equal_where_they_can_be() -> None:
    """Three namespaces with five questions each: eight and seven, and in each namespace two and three."""
    listed = [JudgedQuery(f"{namespace}{number}", namespace, str(number)) for namespace in "abc" for number in range(5)]
    tuning, held_out = halves(listed, 0)
    assert (len(tuning), len(held_out)) == (8, 7)
    assert set(Counter(query[0] for query in tuning).values()) == {2, 3}
