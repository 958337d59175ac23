"""Experiments by simulation: what the sequential test needs and how often it errs, and what click models recover.

Two rankings of a question differ by how much noise their order has. For a known preference, `b` is the better ranking
of a share of the questions, and one as bad as `a` of the others. The A/B test shows each user one ranking, and compares
the shares of queries with a click: by a look at the end of a number of queries that is fixed before.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np

from bench.crowd import Asked, ask, draft
from operators.evaluation.metrics import mean
from operators.experiments.click_model import ClickedPage, Question, fit_clicks
from operators.experiments.crowd import LENGTH, Crowd
from operators.experiments.sequential import SequentialTest, Votes

PREFERENCES: Final = (0.52, 0.55, 0.6)
SHARES: Final = (0.5, 0.8)
"""Of the experiments that have ended."""

LOOKS: Final = 10_000
"""Looks at each experiment without a difference, one after every query that decides."""

_DOCUMENTS: Final = 30
_WORSE: Final = 0.9
_BETTER: Final = 0.4
"""Noise of a ranking: the standard deviation that is added to grades of 0 to 2."""

LEAST: Final = 10
"""Impressions of a document for a question whose attractiveness counts."""

Pair = tuple[Question, str]
Reader = Callable[[Sequence[str], random.Random], set[str]]
"""Users who are shown a page: the documents that they click on."""


class Rates(NamedTuple):
    """Shares of queries for a pair of rankings: with a vote for `b`, for `a`, and with a click on each alone."""

    wins: float
    losses: float
    first: float
    second: float


def question(number: int, chance: random.Random, noise: float) -> Asked:
    """A question whose second ranking has this noise; five of its documents are relevant."""
    ids = [f"d{each}" for each in range(_DOCUMENTS)]
    grades = dict.fromkeys(ids, 0) | {id_: chance.choice((1, 2)) for id_ in chance.sample(ids, 5)}

    def rank(noise: float) -> list[str]:
        return sorted(ids, key=lambda id_: chance.gauss(grades[id_], noise), reverse=True)[:LENGTH]

    return Asked("n", f"question {number}", rank(_WORSE), rank(noise), grades)


def rates(noise: float, queries: int, seed: int) -> Rates:
    """The rates of a crowd for a second ranking of this noise."""
    chance, crowd, found = random.Random(seed), Crowd(), np.zeros(4)
    for number in range(queries):
        asked = question(number, chance, noise)
        _, preference = ask(crowd, "e", str(number), asked, chance)
        alone = (crowd.read([asked.grades[id_] for id_ in ids], chance) for ids in (asked.a, asked.b))
        preferred = preference.preferred if preference is not None else "tie"
        found += [preferred == "b", preferred == "a", *map(bool, alone)]
    return Rates(*(found / queries))


def mix(better: Rates, equal: Rates, preference: float) -> Rates:
    """The rates where this is the preference: `b` is better in a share of the questions."""
    surplus = [each.wins - preference * (each.wins + each.losses) for each in (better, equal)]
    share = surplus[1] / (surplus[1] - surplus[0])
    return Rates(*(share * one + (1 - share) * other for one, other in zip(better, equal, strict=True)))


def ab_queries(found: Rates, power: float, alpha: float = 0.05) -> float:
    """Queries of an A/B test on click-through, both groups: the usual formula of two proportions."""
    normal, mean = NormalDist(), (found.first + found.second) / 2
    quantiles = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return float(4 * quantiles**2 * mean * (1 - mean) / (found.second - found.first) ** 2)


def ends(test: SequentialTest, preference: float, runs: int, looks: int, seed: int) -> np.ndarray[Any, Any]:
    """The decisions after which each of the runs has a winner; infinite without one after so many looks."""
    least, wanted = np.empty(looks), 1
    for decisions in range(1, looks + 1):
        # The lead that wins never shrinks.
        wanted = max(wanted, (decisions + 1) // 2)
        while wanted <= decisions and not test.is_won(Votes(wanted, decisions - wanted)):
            wanted += 1
        least[decisions - 1] = wanted
    chance, every = np.random.default_rng(seed), np.arange(1, looks + 1)
    found = np.full(runs, np.inf)
    for run in range(runs):
        wins = np.cumsum(chance.random(looks) < preference)
        won = (wins >= least) | (every - wins >= least)
        if won.any():
            found[run] = won.argmax() + 1
    return found


def preference_rows(queries: int, runs: int) -> Iterator[dict[str, Any]]:
    """A row a known preference: queries until the given shares of experiments have a winner, beside an A/B test's."""
    better, equal = rates(_BETTER, queries, 1), rates(_WORSE, queries, 2)
    # Both rankings are drawn alike, so that each difference is chance.
    voted, seen = (equal.wins + equal.losses) / 2, (equal.first + equal.second) / 2
    equal = Rates(voted, voted, seen, seen)
    for preference in PREFERENCES:
        mixed = mix(better, equal._replace(first=better.first, second=better.first), preference)
        decided = mixed.wins + mixed.losses
        ended = np.quantile(ends(SequentialTest(), preference, runs, 5 * LOOKS, 3), SHARES, method="higher")
        yield {
            "preference": preference,
            "decided": decided,
            "click_through": (mixed.first, mixed.second),
            "sequential": [float(each / decided) for each in ended],
            "ab": [ab_queries(mixed, share) for share in SHARES],
        }


def alarms(runs: int, looks: int) -> float:
    """The share of experiments without a difference that have a winner at one of the looks."""
    return float(np.isfinite(ends(SequentialTest(), 0.5, runs, looks, 4)).mean())


def _cascade(crowd: Crowd, grades: dict[str, int]) -> Reader:
    def read(page: Sequence[str], chance: random.Random) -> set[str]:
        return {page[rank] for rank in crowd.read([grades[id_] for id_ in page], chance)}

    return read


def _by_rank(crowd: Crowd, grades: dict[str, int]) -> Reader:
    def read(page: Sequence[str], chance: random.Random) -> set[str]:
        seen = (id_ for rank, id_ in enumerate(page, 1) if chance.random() < 1 / rank)
        return {id_ for id_ in seen if chance.random() < crowd.attraction[grades[id_]]}

    return read


USERS: Final[dict[str, Callable[[dict[str, int]], Reader]]] = {
    "stop at the first click": lambda grades: _cascade(Crowd(satisfaction=20.0, patience=1.0), grades),
    "stop if satisfied": lambda grades: _cascade(Crowd(patience=1.0), grades),
    "stop if satisfied, or tired": lambda grades: _cascade(Crowd(), grades),
    "look at rank r by 1/r": lambda grades: _by_rank(Crowd(), grades),
}
"""The crowds whose clicks the models are given."""


def model_rows(questions: int, users: int) -> Iterator[dict[str, Any]]:
    """A row a crowd: the root of the mean squared error of each model's attractiveness, of documents with at least
    LEAST impressions.
    """
    for name, crowd in USERS.items():
        chance, pages, true, shown = random.Random(5), list[ClickedPage](), dict[Pair, float](), Counter[Pair]()
        for number in range(questions):
            asked = question(number, chance, _BETTER)
            about, read = Question(asked.namespace, asked.text), crowd(dict(asked.grades))
            true |= {(about, id_): Crowd().attraction[grade] for id_, grade in asked.grades.items()}
            for _ in range(users):
                page = [hit.id for hit in draft(asked.a, asked.b, chance)]
                pages.append(ClickedPage(about, page, read(page, chance)))
                shown.update((about, id_) for id_ in page)
        model = fit_clicks(pages).items()
        found = {
            "by position": {(about, id_): each.value for about, of in model for id_, each in of.items()},
            "cascade": _shares(pages, to_last=True),
            "plain share": _shares(pages, to_last=False),
        }
        often = [pair for pair, count in shown.items() if count >= LEAST]
        yield {
            "users": name,
            "error": {
                model: math.sqrt(mean([(values.get(pair, 0.0) - true[pair]) ** 2 for pair in often]))
                for model, values in found.items()
            },
        }


def _shares(pages: Sequence[ClickedPage], *, to_last: bool) -> dict[Pair, float]:
    """Clicks over impressions; `to_last`: over those down to the last click of the page, as the cascade model has it.

    Source for the latter: Guo, Liu and Wang, Efficient multiple-click models in web search, WSDM 2009.
    """
    shown, clicked = Counter[Pair](), Counter[Pair]()
    for about, page, clicks in pages:
        last = max((page.index(id_) for id_ in clicks), default=len(page)) if to_last else len(page)
        for id_ in page[: last + 1]:
            shown[about, id_] += 1
            clicked[about, id_] += id_ in clicks
    return {key: clicked[key] / count for key, count in shown.items()}


def figures(queries: int, runs: int) -> dict[str, Any]:
    """All tables: of crowds of so many queries, and of so many experiments for each figure."""
    return {
        "queries": queries,
        "runs": runs,
        "looks": LOOKS,
        "alarms": alarms(runs, LOOKS),
        "preferences": [*preference_rows(queries, runs)],
        "models": [*model_rows(max(2, queries // 500), 100)],
    }
