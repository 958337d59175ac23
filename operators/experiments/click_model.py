"""The click model: how attractive a document is for a query, by clicks, without the bias of the rank it was shown at.

A user looks at a rank with a probability that depends on the rank alone, and clicks on a result that was looked at with
a probability that depends on query and document alone: the position-based model. Interleaving shows a document of one
query at several ranks, by chance, so that the two can be told apart. The first rank is always looked at.

Sources: Craswell, Zoeter, Taylor and Ramsey, An experimental comparison of click position-bias models, WSDM 2008;
Chuklin, Markov and de Rijke, Click Models for Web Search, 2015, 3.1 and 4.3. The same authors' cascade model, in which
users read downwards and stop at a click, recovers more where users do just this, and less of others:
`python -m bench experiments` compares them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from operators.experiments.sequential import Votes
from schemas.preference import PairedRankings, Preference
from schemas.texts import nfkc

BEST: Final = 10
"""The grade of a document that everybody who looks at it clicks on."""

_WEIGHT: Final = 0.5
"""Impressions that each document has beyond its own, clicked on as often as all are: one click alone proves little."""

_STEPS: Final = 500
_SETTLED: Final = 1e-4
"""The greatest change of an attractiveness at which the fit ends."""


class Question(NamedTuple):
    """The text that queries of a namespace share, without case and superfluous space."""

    namespace: str
    text: str


class ClickedPage(NamedTuple):
    """A page of results that a user saw: the documents in their order, and those that were clicked on."""

    question: Question
    documents: Sequence[str]
    clicked: Collection[str]


@dataclass(frozen=True)
class Attractiveness:
    """The probability of a click on a document that is looked at, and the expected number of looks behind it."""

    value: float
    looks: float

    @property
    def grade(self) -> int:
        """The value in tenths."""
        return round(BEST * self.value)


def fit_clicks(pages: Iterable[ClickedPage]) -> Mapping[Question, Mapping[str, Attractiveness]]:
    """The documents of each question by the most likely model of the pages, found by expectation maximisation.

    Where nobody clicked, the expected look and the expected attraction are those given that there was no click.
    """
    counts, clicks = Counter[tuple[Question, str, int]](), Counter[tuple[Question, str, int]]()
    for question, documents, clicked in pages:
        for rank, document in enumerate(documents):
            counts[question, document, rank] += 1
            clicks[question, document, rank] += document in clicked
    numbers = {pair: number for number, pair in enumerate(dict.fromkeys(key[:2] for key in counts))}
    pair = np.fromiter((numbers[key[:2]] for key in counts), int)
    at = np.fromiter((key[2] for key in counts), int)
    impressions, clicked_on = (np.fromiter((each[key] for key in counts), float) for each in (counts, clicks))
    passed = impressions - clicked_on
    mean = clicked_on.sum() / max(impressions.sum(), 1.0)
    of_pair, of_rank = np.bincount(pair, impressions) + _WEIGHT, np.maximum(np.bincount(at, impressions), 1.0)
    # What begins at 1 stays there: the first rank is looked at.
    attraction, look = np.full(len(numbers), mean), 1 / (1 + np.arange(len(of_rank)))
    for _ in range(_STEPS):
        before, one, other = attraction, attraction[pair], look[at]
        no_click = np.maximum(1 - one * other, np.finfo(float).tiny)
        attracted, looked = one * (1 - other) / no_click, other * (1 - one) / no_click
        attraction = (np.bincount(pair, clicked_on + passed * attracted) + _WEIGHT * mean) / of_pair
        look = np.bincount(at, clicked_on + passed * looked) / of_rank
        if np.abs(attraction - before).max(initial=0.0) < _SETTLED:
            break
    looks = np.bincount(pair, impressions * look[at])
    found: dict[Question, dict[str, Attractiveness]] = {}
    for (question, document), number in numbers.items():
        found.setdefault(question, {})[document] = Attractiveness(float(attraction[number]), float(looks[number]))
    return found


QueryIdentity = tuple[str, str, int]
"""Namespace, query_id and time in Kafka: clients may use a query_id again."""


def identify_query(record: PairedRankings | Preference) -> QueryIdentity:
    """The identity of the record's query."""
    return record.namespace, record.query_id, record.issued


class HeardQuery(NamedTuple):
    """The records of one query of an experiment, and the field of `Votes` in which it counts, or else why in none."""

    comparison: PairedRankings | None
    preference: Preference | None
    vote: str


_FIELDS: Final = {"b": "wins", "a": "losses", "tie": "ties"}
SHADOWED: Final = "not interleaved"
ROBOT: Final = "from robots"

Heard = Mapping[QueryIdentity, HeardQuery]


def hear(comparisons: Iterable[PairedRankings], preferences: Iterable[Preference]) -> Heard:
    """Join the queries of an experiment with their users' preferences, the earliest first.

    Queries later than the last preference have no vote: their users may still click.
    """
    compared = {identify_query(each): each for each in comparisons}
    preferred = {identify_query(each): each for each in preferences}
    last = max((issued for *_, issued in preferred), default=-1)
    heard: dict[QueryIdentity, HeardQuery] = {}
    for query in sorted({*compared, *preferred}, key=lambda each: each[2]):
        comparison, preference = compared.get(query), preferred.get(query)
        if comparison is not None and comparison.mode == "shadow":
            vote = SHADOWED
        elif comparison is not None and comparison.incomplete:
            vote = "incomplete"
        elif preference is None:
            vote = "silent" if query[2] <= last else "too new"
        else:
            vote = ROBOT if preference.robot else _FIELDS[preference.preferred]
        heard[query] = HeardQuery(comparison, preference, vote)
    return heard


def read_pages(heard: Heard) -> tuple[Sequence[ClickedPage], Mapping[Question, str], Mapping[str, int]]:
    """The pages of the queries with their clicks; the first text of each question; and the number of queries left out
    by reason.
    """
    pages, texts, left_out = list[ClickedPage](), dict[Question, str](), Counter[str]()
    for comparison, preference, vote in heard.values():
        if comparison is None or comparison.text is None or vote not in Votes._fields:
            left_out[vote if vote not in Votes._fields else "without a text"] += 1
            continue
        question = Question(comparison.namespace, " ".join(nfkc(comparison.text).casefold().split()))
        clicked = {click.id for click in preference.clicks} if preference is not None else frozenset[str]()
        texts.setdefault(question, comparison.text)
        pages.append(ClickedPage(question, [hit.id for hit in comparison.page], clicked))
    return pages, texts, left_out
