"""The graph signal: what neighbours lend by hand, which edges count, and what it never does."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from operators.ranking.blend import boosts, edges, rank_by_blend
from operators.ranking.candidate import Candidate, Leg
from schemas.recipes.fusion import Weighted
from tests.operators.ranking.pools import NOW, explanation, ids, keyword, run, scores, vector


def document(id_: str, *to: tuple[str, float], **payload: Any) -> Candidate:
    """A candidate with these edges."""
    return Candidate(id_, 0.0, {"edges": [{"to": other, "weight": weight} for other, weight in to], **payload})


def lent(
    candidates: Sequence[Candidate], semantic: Sequence[float], decay: float = 0.5, most: int = 5
) -> dict[str, float]:
    """The gain of each candidate."""
    return dict(zip(ids(candidates), boosts(candidates, semantic, decay, most), strict=True))


def test_an_own_edge_lends_the_neighbours_value() -> None:
    """boost = edge weight * semantic value of the neighbour * 0.5, for both ends of the edge."""
    # a .8 * .9 * .5 = .36, b .8 * .2 * .5 = .08
    gained = lent([document("a", ("b", 0.8)), document("b")], [0.2, 0.9])
    assert gained == pytest.approx({"a": 0.36, "b": 0.08}, rel=1e-12)


def test_the_decay_is_a_parameter() -> None:
    """The weight that travels is multiplied by `graph_edge_decay`; at 0 nothing does."""
    found = [document("a", ("b", 0.8)), document("b")]
    assert lent(found, [0.2, 0.9], decay=1.0) == pytest.approx({"a": 0.72, "b": 0.16}, rel=1e-12)
    assert lent(found, [0.2, 0.9], decay=0.0) == {"a": 0.0, "b": 0.0}


def test_the_edges_of_others_count_as_ones_own() -> None:
    """A candidate that has no edges gains by all that lead to it."""
    # c 1.0 * .4 * .5 + .5 * .6 * .5 = .35
    found = [document("a", ("c", 1.0)), document("b", ("c", 0.5)), document("c")]
    assert lent(found, [0.4, 0.6, 0.0])["c"] == pytest.approx(0.35, rel=1e-12)


def test_each_edge_is_counted() -> None:
    """Two documents that name each other have two edges between them; so has one that names the other twice."""
    # .5 * .8 * .5 + .3 * .8 * .5 = .32
    mutual = [document("a", ("b", 0.5)), document("b", ("a", 0.3))]
    assert lent(mutual, [0.0, 0.8])["a"] == pytest.approx(0.32, rel=1e-12)
    twice = [document("a", ("b", 0.5), ("b", 0.3)), document("b")]
    assert lent(twice, [0.0, 0.8])["a"] == pytest.approx(0.32, rel=1e-12)


def test_self_loops_are_left_out() -> None:
    """A document lends itself nothing, and an edge to itself takes up no place."""
    found = [document("a", ("a", 9.0), ("b", 0.5)), document("b")]
    assert lent(found, [1.0, 0.8], most=1)["a"] == pytest.approx(0.5 * 0.8 * 0.5, rel=1e-12)


def test_only_the_heaviest_edges_count() -> None:
    """Of six edges the five heaviest do, wherever they stand in the list."""
    weights = {"b": 0.1, "c": 0.6, "d": 0.5, "e": 0.4, "f": 0.3, "g": 0.2}
    found = [document("a", *weights.items()), *(document(id_) for id_ in weights)]
    # (.6 + .5 + .4 + .3 + .2) * 1 * .5
    assert lent(found, [0.0] + [1.0] * 6)["a"] == pytest.approx(1.0, rel=1e-12)
    assert lent(found, [0.0] + [1.0] * 6, most=6)["a"] == pytest.approx(1.05, rel=1e-12)
    assert lent(found, [0.0] + [1.0] * 6, most=1)["a"] == pytest.approx(0.3, rel=1e-12)
    assert lent(found, [0.0] + [1.0] * 6, most=0)["a"] == 0.0


def test_edges_to_a_candidate_take_up_places_too() -> None:
    """Own edges and those of others are capped together, the heaviest first."""
    found = [document("a", ("b", 0.3)), document("b"), document("c", ("a", 0.5))]
    assert lent(found, [0.0, 1.0, 0.4], most=1)["a"] == pytest.approx(0.5 * 0.4 * 0.5, rel=1e-12)


def test_neighbours_outside_the_pool_take_up_no_places() -> None:
    """An edge to a document that no leg returned adds nothing, however heavy, and leaves as many places."""
    outside = [(f"x{number}", 0.9) for number in range(5)]
    found = [document("a", *outside[:4], ("b", 0.8)), document("b")]
    assert lent(found, [0.0, 1.0])["a"] == pytest.approx(0.4, rel=1e-12)
    assert lent([document("a", *outside, ("b", 0.8)), document("b")], [0.0, 1.0])["a"] == pytest.approx(0.4, rel=1e-12)


def test_equal_weights_go_by_the_neighbours_id() -> None:
    """The neighbour with the smaller id stays if a cap cuts between equal weights, whatever the edges' order."""
    found = [document("a", ("c", 0.5), ("b", 0.5)), document("b"), document("c")]
    assert lent(found, [0.0, 0.6, 1.0], most=1)["a"] == pytest.approx(0.5 * 0.6 * 0.5, rel=1e-12)
    mixed = [document("a", ("c", 0.5)), document("b", ("a", 0.5)), document("c")]
    assert lent(mixed, [0.0, 0.6, 1.0], most=1)["a"] == pytest.approx(0.5 * 0.6 * 0.5, rel=1e-12)


def test_edges_name_documents() -> None:
    """An edge leads to the id that a payload names, not to the point's."""
    found = [document("p1", ("doc-2", 0.8), id="doc-1"), document("p2", ("p1", 0.8), id="doc-2")]
    assert lent(found, [0.2, 0.9]) == pytest.approx({"p1": 0.36, "p2": 0.08}, rel=1e-12)


def test_boosts_do_not_travel_on() -> None:
    """Along a chain only the next document's own match counts, not what that one was lent."""
    found = [document("a", ("b", 1.0)), document("b", ("c", 1.0)), document("c")]
    assert lent(found, [0.0, 0.0, 1.0]) == {"a": 0.0, "b": 0.5, "c": 0.0}


ODD: list[object] = [None, "b", 7, {}, {"to": "b", "weight": 1.0}, [], ["b"], [["b", 1.0]], [None], [{}], [{"to": 7}]]


@pytest.mark.parametrize("listed", ODD, ids=repr)
def test_what_is_no_edge_is_passed_over(listed: object) -> None:
    """Edges of any other shape count as none, and raise nothing."""
    assert edges({"edges": listed}) == []


@pytest.mark.parametrize("weight", [None, "1", True, [1], {}, math.nan, -1.0, 0], ids=repr)
def test_an_odd_weight_lends_nothing(weight: object) -> None:
    """A value that is no weight, or none above 0, adds nothing and takes nothing away."""
    found = [Candidate("a", 0.0, {"edges": [{"to": "b", "weight": weight}]}), document("b")]
    assert lent(found, [1.0, 1.0]) == {"a": 0.0, "b": 0.0}


def test_a_weight_beyond_all_measure_stays_finite() -> None:
    """The heaviest edge that a float can hold gives a finite boost."""
    assert math.isfinite(lent([document("a", ("b", 1e308), ("b", 1e308)), document("b")], [1.0, 1.0])["a"])


GRAPH: Mapping[str, Any] = {"recency_weight": 0.0, "priority_weight": 0.0, "graph_weight": 0.15}

EDGES = {"a": {"edges": [{"to": "b", "weight": 0.8}]}}

PAIR = [vector(("a", 0.2), ("b", 0.6), payloads=EDGES), keyword(("b", 12.0), ("a", 2.0), payloads=EDGES)]
"""By min-max b has 1 and a 0 in the keyword leg."""


def test_the_blend_with_its_neighbours_by_hand() -> None:
    """The graph's weight is divided by the sum as every other, and the better of both semantic values travels."""
    # Weights .30 .55 .15 sum to 1. a .55*.2 + .15*(.8 * max(1, .6) * .5 = .4) = .17
    # b .30*1 + .55*.6 + .15*(.8 * max(0, .2) * .5 = .08) = .642
    blended = rank_by_blend(PAIR, Weighted(**GRAPH), run())
    assert ids(blended) == ["b", "a"]
    assert [one.score for one in blended] == pytest.approx([0.642, 0.17], rel=1e-12)


def test_an_unbounded_boost_is_added_as_it_is() -> None:
    """Weights above 1 lend more than 1; the signal isn't cut down to it."""
    heavy = {"a": {"edges": [{"to": "b", "weight": 10.0}]}}
    of = run(explain=True)
    rank_by_blend([vector(("a", 0.2), ("b", 0.6), payloads=heavy)], Weighted(**GRAPH), of)
    assert explanation(of, "a").stages[0]["values"]["signals"]["graph"] == pytest.approx(3.0, rel=1e-12)


def test_only_what_matches_the_query_travels() -> None:
    """A neighbour that is new and urgent but matches nothing lends nothing; a cosine below 0 takes nothing away."""
    payloads: dict[str, dict[str, Any]] = {
        "a": {"edges": [{"to": "b", "weight": 1.0}]},
        "b": {"created_at": NOW, "priority": "P1"},
    }
    of = run(explain=True)
    rank_by_blend([vector(("a", 0.5), ("b", -0.9), payloads=payloads)], Weighted(graph_weight=0.2), of)
    assert explanation(of, "a").stages[0]["values"]["signals"]["graph"] == 0.0


def test_no_candidate_is_added() -> None:
    """A neighbour that no leg returned stays out, however heavy its edge."""
    payloads = {"a": {"edges": [{"to": "x", "weight": 9.0}]}}
    assert ids(rank_by_blend([vector(("a", 0.5), payloads=payloads)], Weighted(graph_weight=0.5), run())) == ["a"]


class Untouchable(Mapping[str, Any]):
    """A payload whose edges must not be read."""

    def __getitem__(self, key: str) -> Any:
        if key == "edges":
            raise AssertionError("an edge was read")
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the payload was read whole")

    def __len__(self) -> int:
        return 1


def untouchable() -> list[Leg]:
    """Legs whose edges must not be read."""
    payloads = {"a": Untouchable(), "b": Untouchable()}
    return [vector(("a", 0.2), ("b", 0.6), payloads=payloads), keyword(("b", 2.0), payloads=payloads)]


def test_without_a_weight_no_edge_is_read() -> None:
    """At weight 0, the default, payloads aren't asked for their edges, by the recipe either; at any other they are."""
    assert ids(rank_by_blend(untouchable(), Weighted(), run())) == ["b", "a"]
    assert "edges" not in Weighted().reads
    with pytest.raises(AssertionError, match="an edge was read"):
        rank_by_blend(untouchable(), Weighted(graph_weight=1e-9), run())
    assert "edges" in Weighted(graph_weight=1e-9).reads


def backends(found: Sequence[Leg], **parameters: Any) -> list[str]:
    """The signals that took part, as the blend says."""
    of = run()
    rank_by_blend(found, Weighted(**parameters), of)
    return of.backends


def test_the_graph_is_named_where_it_changed_a_score() -> None:
    """`graph` is among the backends if one candidate gained by it."""
    assert backends(PAIR, graph_weight=0.1) == ["graph"]


@pytest.mark.parametrize(
    "listed",
    [[], [{"to": "x", "weight": 1.0}], [{"to": "a", "weight": 1.0}], [{"to": "b", "weight": 0.0}]],
    ids=["no edge", "outside", "loop", "no weight"],
)
def test_the_graph_is_not_named_where_it_changed_nothing(listed: list[dict[str, Any]]) -> None:
    """Edges that lend nothing to anybody are not worth a mention; nor is a graph without weight."""
    assert backends([vector(("a", 0.2), ("b", 0.6), payloads={"a": {"edges": listed}})], graph_weight=0.1) == []
    assert backends(PAIR, graph_weight=0.0) == []


def test_a_boost_that_is_lost_in_rounding_changed_nothing() -> None:
    """A gain too small for the score's last digit leaves it as it was, so the graph isn't named."""
    faint = {"a": {"edges": [{"to": "b", "weight": 1e-30}]}}
    found = [vector(("a", 0.2), ("b", 0.6), payloads=faint)]
    without = [vector(("a", 0.2), ("b", 0.6))]
    stage = Weighted(graph_weight=0.1)
    assert scores(rank_by_blend(found, stage, run())) == scores(rank_by_blend(without, stage, run()))
    assert backends(found, graph_weight=0.1) == []
