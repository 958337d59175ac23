"""The distance pipeline: each stage by hand, alone and with the others, its limits, and what it leaves as it was."""

import math
from itertools import permutations
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.distance import rank_by_distance
from operators.ranking.run import Facts
from schemas.errors import InputError
from schemas.recipes.stages import DistanceStage, ImportanceBoost, KeywordBoost, WeibullDecay
from tests.operators.ranking.odd import NO_STAMPS, YEAR_1, ago, named, payloads
from tests.operators.ranking.pools import (
    NOW,
    any_finite,
    candidate,
    keyword,
    rank,
    recipe,
    run,
    scores,
    vector,
)

WEIBULL = WeibullDecay(enabled=True)
KEYWORD = KeywordBoost(enabled=True)
IMPORTANCE = ImportanceBoost(enabled=True)
IDENTITY = WeibullDecay.model_validate({"enabled": True, "preset": "identity"})
NAMES = ("weibull_decay", "keyword_boost", "importance_boost", "llm_rerank")


def moved(pool: list[Candidate], *stages: DistanceStage, **facts: Any) -> list[tuple[str, object]]:
    """The output of these stages for a pool, scores with a tolerance."""
    return [(id_, pytest.approx(score)) for id_, score in scores(rank_by_distance(pool, stages, 0, run(**facts)))]


@pytest.mark.parametrize(
    ("stage", "days", "distance"),
    [
        (WEIBULL, 0, 0.4),
        (WEIBULL, 90, 0.7174687016),  # S = 1/e: .4 / (.3 + .7 * .36787944) = .4 / .55751561
        (WEIBULL, 45, 0.5053491518),  # S = exp(-.5^1.5) = exp(-.35355339) = .70218850: .4 / .79153195
        (WEIBULL, 100_000, 1.3333333333333333),  # S = 0: .4 / .3
        (IDENTITY, 0, 0.4),
        (IDENTITY, 365, 0.5353664578),  # S = 1/e: .4 / (.6 + .4 * .36787944) = .4 / .74715178
        (IDENTITY, 100_000, 0.6666666666666667),  # .4 / .6
        (IDENTITY, 182.5, 0.4657474185),  # S = exp(-.5^1.2) = exp(-.43527528) = .64708651: .4 / .85883460
        (WeibullDecay(enabled=True, floor=1.0), 500, 0.4),  # nothing falls below a floor of 1
    ],
)
def test_weibull_decay_by_hand(stage: WeibullDecay, days: float, distance: float) -> None:
    """A distance of .4 is divided by floor + (1 - floor) * exp(-(days/lambda)^k)."""
    assert moved([candidate("a", 0.6, created_at=ago(days))], stage) == [("a", 1 - distance)]


def test_weibull_parameters() -> None:
    """k 1.5, lambda 90, floor .3; the preset `identity` is 1.2, 365, .6, and gives only what isn't given beside it."""
    assert (WEIBULL.k, WEIBULL.scale, WEIBULL.floor) == (1.5, 90.0, 0.3)
    assert (IDENTITY.k, IDENTITY.scale, IDENTITY.floor) == (1.2, 365.0, 0.6)
    own = WeibullDecay.model_validate({"preset": "identity", "lambda": 30.0})
    assert (own.k, own.scale, own.floor) == (1.2, 30.0, 0.6)


@pytest.mark.parametrize("stamp", NO_STAMPS, ids=named)
def test_an_undated_document_counts_as_new(stamp: object) -> None:
    """Without a date, and with one that isn't a time, nothing decays; only the creation is a date."""
    pool = [candidate("a", 0.6, created_at=stamp, updated_at=ago(900), accessed_at=ago(900)), candidate("b", 0.6)]
    assert moved(pool, WEIBULL) == [("a", 0.6), ("b", 0.6)]


def test_the_future_counts_as_new_with_a_warning() -> None:
    """A stamp after now is of age 0, and the answer says that there was one."""
    noting = run()
    found = rank_by_distance([candidate("a", 0.6, created_at=ago(-400))], [WEIBULL], 0, noting)
    assert found[0].score == pytest.approx(0.6)
    assert len(noting.warnings()) == 1


@pytest.mark.parametrize("k", [0.01, 1.5, 10.0, 100.0])
@pytest.mark.parametrize("scale", [0.001, 90.0])
def test_the_year_1_is_at_the_floor_or_above(k: float, scale: float) -> None:
    """The oldest stamp that there is decays by at most 1 / floor with every k and lambda, and raises with none."""
    stage = WeibullDecay.model_validate({"enabled": True, "k": k, "lambda": scale})
    (found,) = rank_by_distance([candidate("a", 0.5, created_at=YEAR_1)], [stage], 0, run())
    assert 1 - 0.5 / 0.3 <= found.score <= 0.5
    if k > 1:
        assert found.score == pytest.approx(1 - 0.5 / 0.3)


def test_a_distance_of_zero_never_decays() -> None:
    """The best in every leg stays at 1, however old; a score above 1 is a distance of 0, too."""
    pool = [candidate("a", 1.0, created_at=YEAR_1), candidate("b", 1.7, created_at=YEAR_1)]
    assert moved(pool, WEIBULL, KEYWORD, IMPORTANCE) == [("a", 1.0), ("b", 1.0)]


@pytest.mark.parametrize(
    ("query", "payload", "distance"),
    [
        ("red fox jumps", {"text": "The Red fox sleeps"}, 0.32),  # 2 of 3: .4 * (1 - .3 * 2/3)
        ("red fox jumps", {"text": "a fox"}, 0.36),  # 1 of 3: .4 * .9
        ("fox FOX fox red", {"text": "fox"}, 0.34),  # each word once, 1 of 2: .4 * .85
        ("red fox", {"text": "red red", "title": "Fox"}, 0.28),  # the title is text: all of 2: .4 * .7
        ("red fox", {"text": "redfoxes"}, 0.4),  # no whole word
        ("what is the fox", {"text": "what is the"}, 0.4),  # stop words aren't asked for
        ("what is the", {"text": "what is the"}, 0.4),  # no keywords
        ("to be", {"text": "to be"}, 0.4),
        ("AI ski", {"text": "an ai"}, 0.34),  # two letters are a word
        ("x y", {"text": "x y"}, 0.4),  # one is none
        ("犬", {"text": "犬 と 猫"}, 0.28),  # but in Han
        ("what did I buy last", {"text": "I did buy what I got last"}, 0.4),
        ("", {"text": "fox"}, 0.4),
        (None, {"text": "fox"}, 0.4),
        ("red fox", {"text": ["red fox"], "title": 7}, 0.4),
        ("red fox", {}, 0.4),
        ("Größe der Straße", {"text": "GRO\u0308SSE DER STRASSE"}, 0.28),
        ("東京都庁", {"text": "東京の都庁"}, 0.32),  # 東京 and 都庁 of three, 京都 not
        ("ภาษาไทย", {"text": "เรียนภาษา"}, 0.34),  # ภา าษ ษา of six
        ("人工智能", {"text": "人工"}, 0.36),  # 1 of 3
        ("الكتاب الجديد", {"text": "هذا الكتاب"}, 0.34),
        ("كِتَابٌ", {"text": "كتاب"}, 0.4),
        ("हिन्दी किताब", {"text": "यह किताब है"}, 0.34),
        ("한국어 문서를", {"text": "한국어 문서"}, 0.34),
    ],
)
def test_keyword_boost_by_hand(query: str | None, payload: dict[str, Any], distance: float) -> None:
    """A distance of .4 is multiplied by 1 - .30 * the share of the query's keywords that are words of the text."""
    assert moved([candidate("a", 0.6, **payload)], KEYWORD, text=query) == [("a", 1 - distance)]


def test_keyword_parameters() -> None:
    """Another weight and other stop words: at 1 all of the words bring a distance of 0."""
    stage = KeywordBoost(enabled=True, weight=1.0, stop_words=["fox"])
    assert moved([candidate("a", 0.6, text="the red one")], stage, text="the red fox") == [("a", 1.0)]


@pytest.mark.parametrize(
    ("scale", "importance", "distance"),
    [
        (5, 5, 0.34),  # .4 * .85
        (5, 3, 0.364),  # .4 * (1 - .15 * .6)
        (1, 0.6, 0.364),
        (1, 3, 0.34),
        (5, 0, 0.4),
        (5, None, 0.4),
        (5, "5", 0.4),
        (5, -1, 0.4),
        (5, 1e308, 0.34),
    ],
)
def test_importance_boost_by_hand(scale: Any, importance: object, distance: float) -> None:
    """A distance of .4 is multiplied by 1 - .15 * importance, on either scale."""
    stage = ImportanceBoost(enabled=True, importance_scale=scale)
    assert moved([candidate("a", 0.6, importance=importance)], stage) == [("a", 1 - distance)]


RICH: dict[str, Any] = {"created_at": ago(90), "text": "the red fox", "importance": 5}


def test_each_stage_alone_does_nothing_of_the_others() -> None:
    """A document that every stage would move is moved by the one that is on: .4 / .55751561, .4 * .7, .4 * .85."""
    found = [moved([candidate("a", 0.6, **RICH)], stage, text="red fox") for stage in (WEIBULL, KEYWORD, IMPORTANCE)]
    assert found == [[("a", 1 - each)] for each in (0.7174687016, 0.28, 0.34)]


def test_all_stages_together_by_hand() -> None:
    """.4 / .55751561 * .7 * .85 = .42689388, in whatever order they stand."""
    for stages in permutations([WEIBULL, KEYWORD, IMPORTANCE]):
        assert moved([candidate("a", 0.6, **RICH)], *stages, text="red fox") == [("a", 0.5731061225)]


def test_the_nearest_goes_first_and_ties_keep_the_fused_order() -> None:
    """Boosts reorder; equal distances stay in the order in which the fusion left them, not in that of ids."""
    pool = [candidate("z", 0.6), candidate("m", 0.6), candidate("a", 0.6), candidate("x", 0.5, importance=5)]
    full = ImportanceBoost(enabled=True, weight=1.0)
    assert moved(pool, full) == [("x", 1.0), ("z", 0.6), ("m", 0.6), ("a", 0.6)]


def test_scores_may_be_negative() -> None:
    """A distance above 1 is a score below 0, before and after a stage: 2 / .3 = 6.67."""
    pool = [candidate("a", -1.0, created_at=YEAR_1), candidate("b", -1.0)]
    assert moved(pool, WEIBULL) == [("b", -1.0), ("a", -5.666666666666667)]


def test_decay_needs_a_clock_and_the_others_dont() -> None:
    """Only `weibull_decay` asks for a now, and names it and itself where there is none."""
    with pytest.raises(InputError, match=r"^now: .*stage weibull_decay "):
        rank_by_distance([candidate("a", 0.6)], [WEIBULL], 0, run(now=None))
    assert moved([candidate("a", 0.6)], KEYWORD, IMPORTANCE, now=None, text="fox") == [("a", 0.6)]


def as_bytes(*stages: Any, **more: Any) -> tuple[bytes, bool]:
    """The ranking of a pool that every stage would move, and whether it says that it was reranked."""
    payloads_of: dict[str, dict[str, Any]] = {
        "a": {**RICH, "created_at": ago(400), "importance": 1},
        "b": RICH,
        "c": {"text": "red fox"},
    }
    found = [
        vector(("a", 0.9), ("b", 0.7), ("c", 0.2), payloads=payloads_of),
        keyword(("b", 4.0), ("a", 3.0), payloads=payloads_of),
    ]
    ranked = rank(recipe(*stages, **more), found, Facts(now=NOW, text="red fox"))
    return orjson.dumps([[each.id, each.score] for each in ranked.candidates]), ranked.run.reranked


def test_stages_that_are_off_are_the_identity() -> None:
    """Off is the default, and all off, without a `max_distance`, is the recipe without them, byte for byte."""
    assert as_bytes("score", *NAMES) == as_bytes("score", *NAMES, max_distance=0) == as_bytes("score")
    assert not as_bytes("score", *NAMES)[1]


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_stage_that_is_on_moves_and_says_so(name: str) -> None:
    """Each alone changes the answer, and the answer is then marked as reranked; the others beside it stay off."""
    on: list[Any] = [{each: {"enabled": True}} if each == name else each for each in NAMES]
    assert as_bytes("score", *on) == as_bytes("score", {name: {"enabled": True}}) != as_bytes("score")
    assert as_bytes("score", *on)[1]


chosen = st.permutations([WEIBULL, IDENTITY, KEYWORD, IMPORTANCE]).flatmap(
    lambda stages: st.integers(1, 4).map(lambda count: stages[:count])
)


@given(st.lists(st.tuples(any_finite, payloads), max_size=8), chosen, st.text(max_size=20), st.floats(0, 2))
def test_any_payload_has_a_finite_distance(
    pool: list[tuple[float, dict[str, Any]]], stages: list[DistanceStage], text: str, most: float
) -> None:
    """Whatever scores and fields hold: finite, nearest first, at most 1, within the limit, nothing made up or lost."""
    found = rank_by_distance(
        [Candidate(str(place), *each) for place, each in enumerate(pool)], stages, most, run(text=text)
    )
    values = [each.score for each in found]
    assert all(math.isfinite(value) and value <= 1 for value in values)
    assert values == sorted(values, reverse=True)
    assert not most or all(1 - value <= most + 1e-12 for value in values)
    assert len({each.id for each in found} & {str(place) for place in range(len(pool))}) == len(found)
    assert most or len(found) == len(pool)


@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), payloads), min_size=1, max_size=8),
    chosen,
    st.randoms(),
    st.floats(0, 2),
)
def test_the_order_of_arrival_moves_no_score(
    pool: list[tuple[float, dict[str, Any]]], stages: list[DistanceStage], luck: Random, most: float
) -> None:
    """However the candidates came, each has the same distance, or is too far."""
    places = list(range(len(pool)))
    shuffled = luck.sample(places, len(places))
    found, again = (
        dict(
            scores(
                rank_by_distance([Candidate(str(at), *pool[at]) for at in order], stages, most, run(text="high fox"))
            )
        )
        for order in (places, shuffled)
    )
    assert found == again


@given(st.floats(0, 1), st.floats(0, 1e5), st.floats(0, 1e5), st.sampled_from([WEIBULL, IDENTITY]))
def test_age_never_brings_a_document_nearer(score: float, one: float, other: float, stage: WeibullDecay) -> None:
    """Of two documents that differ in age alone, the older is as near or farther."""
    young, old = sorted((one, other))
    (newer,), (older,) = (
        rank_by_distance([candidate("a", score, created_at=ago(age))], [stage], 0, run()) for age in (young, old)
    )
    assert older.score <= newer.score
