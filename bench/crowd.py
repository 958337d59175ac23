"""Queries of a simulated crowd: by simulated rankings, as records of experiments; and by the judged queries of a file.

`python -m bench crowd` has the crowd visit flows that run: it asks the queries, and what it clicks on goes to the topic
`feedback`, by the tokens of the results.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from flows.cli.evaluate.evaluation import read_qrels, to_event
from flows.cli.ingestion import read_jsonl
from operators.experiments.crowd import LENGTH, Crowd, Wish
from operators.experiments.impression import SIDES
from operators.experiments.team_draft import team_draft
from schemas.preference import Click, DraftedResult, PairedRankings, Preference

ISSUED: Final = 1_800_000_000_000
"""The time of the first query, in ms."""


def draft(a: Sequence[str], b: Sequence[str], chance: random.Random) -> list[DraftedResult]:
    """An interleaved page."""
    drafted = team_draft(a, b, chance.randbytes(8))
    return [DraftedResult(id=id_, side=side) for id_, side in islice(drafted.items(), LENGTH)]


@dataclass(frozen=True)
class Asked:
    """A query that the crowd asks: both rankings, and the grades of documents, 0 for all others."""

    namespace: str
    text: str
    a: Sequence[str]
    b: Sequence[str]
    grades: Mapping[str, int]


def ask(
    crowd: Crowd, experiment: str, query_id: str, asked: Asked, chance: random.Random, issued: int = ISSUED
) -> tuple[PairedRankings, Preference | None]:
    """One user's query: the records that the flows would write of it, no preference if nothing was clicked on."""
    page = draft(asked.a, asked.b, chance)
    about: dict[str, Any] = {
        "experiment": experiment,
        "query_id": query_id,
        "namespace": asked.namespace,
        "issued": issued,
    }
    comparison = PairedRankings(
        **about,
        mode="interleave",
        text=asked.text,
        a=[*asked.a],
        b=[*asked.b],
        page=page,
        overlap=0.5,
        cpu_ms=1.0,
    )
    ranks = crowd.read([asked.grades.get(hit.id, 0) for hit in page], chance)
    clicks = [Click(id=page[rank].id, rank=rank, side=page[rank].side, actions=["click"]) for rank in ranks]
    if not clicks:
        return comparison, None
    a, b = (sum(click.side == side for click in clicks) for side in SIDES)
    preferred: Literal["a", "b", "tie"] = "tie" if a == b else "a" if a > b else "b"
    return comparison, Preference(**about, a=a, b=b, preferred=preferred, clicks=clicks)


def read_wishes(queries: Path, qrels: Path, users: int, seed: int) -> list[Wish]:
    """The wishes of so many users for each judged query of a file. Raises InputError and OSError."""
    judged = read_qrels(qrels)
    return [
        ({**to_event(query), "query_id": f"crowd-{seed}-{user}-{query['query_id']}"}, judged[query["query_id"]])
        for user in range(users)
        for query in read_jsonl(queries)
        if query["query_id"] in judged
    ]
