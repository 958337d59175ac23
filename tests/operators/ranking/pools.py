"""Legs as the ranking tests need them, by hand and at random."""

from collections.abc import Sequence

from hypothesis import strategies as st

from operators.ranking.candidate import CONTENT, KEYWORD, VECTOR, Candidate, Leg
from schemas.result import LegStatus


def leg(name: str, *hits: tuple[str, float]) -> Leg:
    """A leg that answered with these, best first; each payload names its leg."""
    return Leg(
        name, LegStatus.OK, [id_ for id_, _ in hits], [value for _, value in hits], [{"from": name} for _ in hits]
    )


def vector(*hits: tuple[str, float]) -> Leg:
    """The vector leg."""
    return leg(VECTOR, *hits)


def keyword(*hits: tuple[str, float]) -> Leg:
    """The keyword leg."""
    return leg(KEYWORD, *hits)


def scores(candidates: Sequence[Candidate]) -> list[tuple[str, float]]:
    """What a ranking says: ids and scores in order."""
    return [(candidate.id, candidate.score) for candidate in candidates]


def ids(candidates: Sequence[Candidate]) -> list[str]:
    """The order alone."""
    return [candidate.id for candidate in candidates]


finite = st.floats(-1e6, 1e6, width=32)
any_finite = st.floats(allow_nan=False, allow_infinity=False)


def hits(values: st.SearchStrategy[float] = finite) -> st.SearchStrategy[list[tuple[str, float]]]:
    """A leg's hits, best first; ids may repeat, scores may be equal."""
    documents = st.sampled_from("abcdefghij")
    found = st.lists(st.tuples(documents, values), max_size=12)
    return found.map(lambda pairs: sorted(pairs, key=lambda pair: -pair[1]))


def legs(values: st.SearchStrategy[float] = finite) -> st.SearchStrategy[list[Leg]]:
    """Two legs in either order; one may be missing or empty."""
    both = st.tuples(hits(values), hits(values)).map(lambda pair: [vector(*pair[0]), keyword(*pair[1])])
    return st.tuples(both, st.sampled_from([(0, 1), (1, 0), (0,), (1,), ()])).map(
        lambda drawn: [drawn[0][index] for index in drawn[1]]
    )


def with_content(id_: str, content: int | None) -> Candidate:
    """A candidate with a fingerprint of its content, or without."""
    return Candidate(id_, 0.0, {} if content is None else {CONTENT: content})
