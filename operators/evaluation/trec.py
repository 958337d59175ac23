"""TREC's formats: judgements in, runs out. Pure."""

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


def run_lines(query: str, ranked: Iterable[tuple[str, float]], tag: str) -> Iterator[str]:
    """Write one query's ranking of (document, score) as `query Q0 document rank score tag` lines."""
    for rank, (document, score) in enumerate(ranked, 1):
        yield f"{query} Q0 {document} {rank} {score:.9g} {tag}\n"
