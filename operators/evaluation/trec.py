"""TREC's formats: judgements in, runs out and in. Pure."""

import math
from collections.abc import Iterable, Iterator

from schemas.errors import DeadLetterClass, InputError


def parse_qrels(lines: Iterable[str]) -> dict[str, dict[str, int]]:
    """Read `query iteration document grade` lines as query -> document -> grade.

    Raises InputError naming the line that has another form.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            query, _, document, grade = line.split()
            qrels.setdefault(query, {})[document] = int(grade)
        except ValueError:
            raise InputError(DeadLetterClass.INVALID, f"line {number}: expected `query 0 document grade`") from None
    return qrels


def parse_run(lines: Iterable[str]) -> dict[str, list[str]]:
    """Read `query Q0 document rank score tag` lines as query -> documents, best first.

    The order is by score, descending, and of equal scores by rank. (trec_eval orders equal scores by document.) Raises
    InputError naming the line that has another form, or a document that its query has already.
    """
    ranked: dict[str, dict[str, tuple[float, int]]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            query, _, document, rank, score, _ = line.split()
            place = -float(score), int(rank)
        except ValueError:
            place = math.nan, 0
        if math.isnan(place[0]):
            raise InputError(DeadLetterClass.INVALID, f"line {number}: expected `query Q0 document rank score tag`")
        documents = ranked.setdefault(query, {})
        if document in documents:
            raise InputError(DeadLetterClass.INVALID, f"line {number}: query {query} has {document} already")
        documents[document] = place
    return {query: sorted(documents, key=documents.__getitem__) for query, documents in ranked.items()}


def run_lines(query: str, ranked: Iterable[tuple[str, float]], tag: str) -> Iterator[str]:
    """Write one query's ranking of (document, score) as `query Q0 document rank score tag` lines."""
    for rank, (document, score) in enumerate(ranked, 1):
        yield f"{query} Q0 {document} {rank} {score:.9g} {tag}\n"
