"""Judged queries: the metrics of rankings, TREC's formats for judgements and runs, and halves for tuning. Pure."""

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from schemas.errors import DeadLetterClass, InputError

Judgements = Mapping[str, int]
"""Document -> grade; above 0 is relevant."""

Ranking = Sequence[str]
"""Documents, best first, none twice."""

_NOTHING: Final = "%none"
"""The document of an empty ranking; `%` is encoded in all others."""

_ENCODED: Final = re.compile(
    "%(?:25|09|0[A-D]|1[C-F]|20|C2%85|C2%A0|E1%9A%80|E2%80%(?:8[0-9A]|A[89F])|E2%81%9F|E3%80%80)", re.IGNORECASE
)
"""Escapes that encoding an id gives, and no others: the ids of other tools may be URLs, which hold more."""


def any_at(ranking: Ranking, judged: Judgements, depth: int) -> float:
    """1 if a relevant document is among the first `depth`, else 0. Source: trec_eval's `success`."""
    return float(any(judged.get(document, 0) > 0 for document in ranking[:depth]))


def recall_at(ranking: Ranking, judged: Judgements, depth: int) -> float:
    """The share of the relevant documents that is among the first `depth`; 0 without any.

    Source: trec_eval's `recall`.
    """
    relevant = sum(grade > 0 for grade in judged.values())
    found = sum(judged.get(document, 0) > 0 for document in ranking[:depth])
    return found / relevant if relevant else 0.0


def reciprocal_rank_at(ranking: Ranking, judged: Judgements, depth: int) -> float:
    """1 / rank of the first relevant document among the first `depth`, ranks from 1; 0 without one.

    Source: Voorhees 1999, cut at a depth; trec_eval's `recip_rank` isn't cut.
    """
    for rank, document in enumerate(ranking[:depth], 1):
        if judged.get(document, 0) > 0:
            return 1 / rank
    return 0.0


def ndcg_at(ranking: Ranking, judged: Judgements, depth: int) -> float:
    """Sum of grade / log2(rank + 1) over the first `depth`, divided by that of the best order; 0 without relevant.

    Source: Järvelin and Kekäläinen 2002, with linear gain as in trec_eval's `ndcg_cut`.
    """
    ideal = _dcg(sorted((grade for grade in judged.values() if grade > 0), reverse=True)[:depth])
    return _dcg([max(0, judged.get(document, 0)) for document in ranking[:depth]]) / ideal if ideal else 0.0


def _dcg(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


TABLE: Mapping[str, Callable[[Ranking, Judgements], float]] = {
    "any@1": lambda ranking, judged: any_at(ranking, judged, 1),
    "any@5": lambda ranking, judged: any_at(ranking, judged, 5),
    "any@10": lambda ranking, judged: any_at(ranking, judged, 10),
    "recall@10": lambda ranking, judged: recall_at(ranking, judged, 10),
    "MRR@10": lambda ranking, judged: reciprocal_rank_at(ranking, judged, 10),
    "nDCG@10": lambda ranking, judged: ndcg_at(ranking, judged, 10),
}
"""The metrics that are reported, by name."""


def by_query(run: Mapping[str, Ranking], qrels: Mapping[str, Judgements]) -> dict[str, dict[str, float]]:
    """Each metric of each query with a relevant document: metric -> query -> value; a query without a ranking has 0.

    Source: own; as trec_eval's option `-q`.
    """
    judged = relevant(qrels)
    return {
        name: {query: metric(run.get(query, ()), grades) for query, grades in judged.items()}
        for name, metric in TABLE.items()
    }


def relevant(qrels: Mapping[str, Judgements]) -> dict[str, Judgements]:
    """The judgements of the queries with a relevant document: the others can't tell rankings apart."""
    return {query: grades for query, grades in qrels.items() if any(grade > 0 for grade in grades.values())}


def mean(values: Collection[float]) -> float:
    """The mean, which doesn't depend on the order of the values; 0 of none. Source: own."""
    return math.fsum(values) / len(values) if values else 0.0


def evaluate_run(run: Mapping[str, Ranking], qrels: Mapping[str, Judgements]) -> dict[str, float]:
    """The mean of each metric over the queries with a relevant document; one that isn't in the run counts 0.

    Source: trec_eval's averages with its option `-c`.
    """
    return {name: mean(values.values()) for name, values in by_query(run, qrels).items()}


class Separation(NamedTuple):
    """A number that tells queries with an answer from those without: the area under its ROC curve, and a threshold,
    with the share of the former that reach it, and that of the latter that don't.
    """

    auc: float
    threshold: float
    answered: float
    left_out: float


def separate(answerable: Sequence[float], others: Sequence[float]) -> Separation | None:
    """The separation by the numbers of both, and the threshold with the greatest sum of shares; None without either.

    Source: Hanley and McNeil 1982 for the area; Youden 1950 for the threshold, of several the smallest.
    """
    if not answerable or not others:
        return None
    above = math.fsum((one > other) + (one == other) / 2 for one in answerable for other in others)

    def shares(threshold: float) -> tuple[float, float]:
        return mean([one >= threshold for one in answerable]), mean([other < threshold for other in others])

    threshold = max(sorted(set(answerable)), key=lambda each: sum(shares(each)))
    return Separation(above / (len(answerable) * len(others)), threshold, *shares(threshold))


def parse_qrels(lines: Iterable[str]) -> dict[str, dict[str, int]]:
    """Read `query iteration document grade` lines as query -> document -> grade; ids are decoded.

    Raises InputError naming the line that has another form, or that gives a document another grade than a line before.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, columns in _rows(lines):
        try:
            query, _, document, last = map(_decode, columns)
            grade = int(last)
        except ValueError:
            raise InputError(DeadLetterClass.INVALID, f"line {number}: expected `query 0 document grade`") from None
        before = qrels.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            said = f"line {number}: query {query} has {document} already, with the grade {before}"
            raise InputError(DeadLetterClass.INVALID, said)
    return qrels


def parse_run(lines: Iterable[str]) -> dict[str, list[str]]:
    """Read `query Q0 document rank score tag` lines as query -> documents, best first; ids are decoded.

    The order is by score, descending, and of equal scores by rank. (trec_eval orders equal scores by document.) Raises
    InputError naming the line that has another form, or a document that its query has already.
    """
    ranked: dict[str, dict[str, tuple[float, int]]] = {}
    for number, columns in _rows(lines):
        try:
            query, _, column, rank, score, _ = columns
            place = -float(score), int(rank)
        except ValueError:
            place = math.nan, 0
        if math.isnan(place[0]):
            raise InputError(DeadLetterClass.INVALID, f"line {number}: expected `query Q0 document rank score tag`")
        query, document = _decode(query), _decode(column)
        documents = ranked.setdefault(query, {})
        if column == _NOTHING:
            continue
        if document in documents:
            raise InputError(DeadLetterClass.INVALID, f"line {number}: query {query} has {document} already")
        documents[document] = place
    return {query: sorted(documents, key=documents.__getitem__) for query, documents in ranked.items()}


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The columns of each line that is not blank, with its number from 1."""
    return ((number, columns) for number, line in enumerate(lines, 1) if (columns := line.split()))


def qrels_lines(query: str, judged: Judgements) -> Iterator[str]:
    """Write one query's judgements as `query 0 document grade` lines; ids are encoded."""
    return (f"{_encode(query)} 0 {_encode(document)} {grade}\n" for document, grade in judged.items())


def run_lines(query: str, ranked: Iterable[tuple[str, float]], tag: str) -> Iterator[str]:
    """Write one query's ranking of (document, score) as `query Q0 document rank score tag` lines.

    Ids are encoded; the tag, which nothing reads back, has underscores for white space. An empty ranking has a line of
    no document, as TREC asks for: a query without a line was not asked.
    """
    tag, query = "_".join(tag.split()), _encode(query)
    lines = [(_encode(document), score) for document, score in ranked] or [(_NOTHING, 0.0)]
    for rank, (document, score) in enumerate(lines, 1):
        yield f"{query} Q0 {document} {rank} {score:.9g} {tag}\n"


def _encode(id_: str) -> str:
    """The id without white space, which separates columns: that and `%` are percent-encoded."""
    return re.sub(r"[\s%]", lambda found: quote(found[0]), id_)


def _decode(column: str) -> str:
    return _ENCODED.sub(lambda found: unquote(found[0]), column)


class JudgedQuery(NamedTuple):
    """A query with all that assigns it to a half; queries of one namespace that ask the same are in one half."""

    query_id: str
    namespace: str
    asked: str


class Halves(NamedTuple):
    """The queries to tune on, and those held out; each in the order of their ids."""

    tuning: tuple[str, ...]
    held_out: tuple[str, ...]


def halves(queries: Iterable[JudgedQuery], seed: int) -> Halves:
    """Split the queries: the order is that of a hash of the seed and the query, so equal seeds give equal halves.

    The halves of a namespace differ by at most the largest group of queries that ask the same, and so do all.
    Source: own; a stratified, a grouped split.
    """
    namespaces: dict[str, dict[str, list[str]]] = {}
    for query in queries:
        namespaces.setdefault(query.namespace, {}).setdefault(query.asked, []).append(query.query_id)
    halves: tuple[list[str], list[str]] = ([], [])
    for namespace in sorted(namespaces):
        own: tuple[list[str], list[str]] = ([], [])
        for group in sorted(namespaces[namespace], key=partial(_lot, seed, namespace)):
            min(own, key=len).extend(namespaces[namespace][group])
        # The half that has fewer gets more, so that both stay about equal.
        for side, more in zip(sorted(halves, key=len), sorted(own, key=len, reverse=True), strict=True):
            side.extend(more)
    return Halves(*(tuple(sorted(half)) for half in halves))


def _lot(seed: int, namespace: str, asked: str) -> tuple[bytes, str]:
    content = f"{seed}\n{namespace}\n{asked}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).digest(), asked
