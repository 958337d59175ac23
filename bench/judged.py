"""A set of judged queries in a directory: `documents.jsonl`, `queries.jsonl` and `qrels.txt`, as `rankstream evaluate`
reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from flows.cli.evaluate.evaluation import Qrels, read_judgements
from flows.cli.ingestion import read_jsonl
from operators.evaluation import metrics
from schemas.settings import Defaults

FIGURE: Final = "nDCG@10"


@dataclass(frozen=True)
class JudgedSet:
    """The files of documents and queries, the ids of the queries in their order, and the judgements."""

    documents: Path
    queries: Path
    asked: Sequence[str]
    qrels: Qrels
    namespaces: frozenset[str]

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read a directory. Raises InputError for a file that is not as it should be, and OSError without one."""
        documents, queries = directory / "documents.jsonl", directory / "queries.jsonl"
        lines = list(read_jsonl(queries))
        return cls(
            documents,
            queries,
            [str(line["query_id"]) for line in lines],
            read_judgements(directory / "qrels.txt", queries, documents),
            frozenset(str(line.get("namespace", Defaults().namespace)) for line in lines),
        )

    def quality(self, ranked: Sequence[Sequence[str]]) -> float:
        """The mean nDCG@10 of what the queries found, in their order."""
        run: Mapping[str, Sequence[str]] = dict(zip(self.asked, ranked, strict=True))
        return metrics.evaluate_run(run, self.qrels)[FIGURE]


def agreement(ranked: Sequence[Sequence[str]], other: Sequence[Sequence[str]]) -> float:
    """The mean share of `other`'s results that `ranked` has, too, over the queries for which `other` has any."""
    shares = [len({*ours} & {*theirs}) / len(theirs) for ours, theirs in zip(ranked, other, strict=True) if theirs]
    return metrics.mean(shares)
