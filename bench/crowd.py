"""A simulated crowd: users who read a page downwards and click with noise, as the cascade model says.

A result attracts by its grade. A user who clicks on it is likely satisfied and goes, and else reads on; a user who
passes it by may lose patience. Source: Craswell, Zoeter, Taylor and Ramsey, WSDM 2008, with the satisfaction and the
patience of Chapelle and Zhang, A dynamic Bayesian network click model for web search ranking, WWW 2009.

`python -m bench crowd` is such users of flows that run: they ask the judged queries of a file, and what they click on
goes to the topic `feedback`, by the tokens of the results.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from flows.cli.evaluate.evaluation import read_qrels, to_event
from flows.cli.ingestion import read_jsonl
from flows.cli.query import QueryClient
from operators.delivery.client import KafkaClient, ProducerRecord
from operators.experiments.impression import SIDES
from operators.experiments.team_draft import team_draft
from schemas.errors import ConfigError
from schemas.preference import Click, DraftedResult, PairedRankings, Preference
from schemas.settings import Topics

LENGTH: Final = 10
"""Results of a page."""

_TIMEOUT: Final = 30.0
"""Seconds for an answer."""

ISSUED: Final = 1_800_000_000_000
"""The time of the first query, in ms."""


@dataclass(frozen=True)
class Crowd:
    """Users whose chance of a click is `attraction` of a grade; a click ends the reading by `satisfaction`, a result
    that is passed by lets it go on by `patience`.
    """

    attraction: Sequence[float] = (0.05, 0.4, 0.7)
    satisfaction: float = 0.8
    patience: float = 0.85

    def read(self, grades: Sequence[int], chance: random.Random) -> list[int]:
        """The ranks that one user clicks on, of a page with these grades."""
        clicked = []
        for rank, grade in enumerate(grades):
            if chance.random() < self.attraction[grade]:
                clicked.append(rank)
                if chance.random() < self.satisfaction * self.attraction[grade]:
                    break
            elif chance.random() > self.patience:
                break
        return clicked


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


Wish = tuple[dict[str, Any], Mapping[str, int]]
"""A query event, and the grades of the documents that its user looks for."""


def react(
    crowd: Crowd, result: Mapping[str, Any], grades: Mapping[str, int], chance: random.Random
) -> Iterator[dict[str, str]]:
    """The feedback of one user to a result: a message for each click, on hits that have a token."""
    hits, highest = result["results"], len(crowd.attraction) - 1
    for rank in crowd.read([min(highest, grades.get(hit["id"], 0)) for hit in hits], chance):
        if "token" in hits[rank]:
            yield {"token": hits[rank]["token"], "action": "click"}


def read_wishes(queries: Path, qrels: Path, users: int, seed: int) -> list[Wish]:
    """The wishes of so many users for each judged query of a file. Raises InputError and OSError."""
    judged = read_qrels(qrels)
    return [
        ({**to_event(query), "query_id": f"crowd-{seed}-{user}-{query['query_id']}"}, judged[query["query_id"]])
        for user in range(users)
        for query in read_jsonl(queries)
        if query["query_id"] in judged
    ]


def visit(client: KafkaClient, topics: Topics, wishes: Sequence[Wish], seed: int) -> set[str]:
    """Have users ask, and send their feedback; the ids of queries with a click.

    Raises ConfigError without a topic for feedback, and DeliveryError.
    """
    if topics.feedback is None:
        raise ConfigError("kafka.topics.feedback: not set, so no click is heard; name a topic")
    crowd, clicked = Crowd(), set[str]()
    grades = {event["query_id"]: looked_for for event, looked_for in wishes}
    with QueryClient.connect(client, topics) as query_client, closing(client.plain_producer()) as sender:
        for result in query_client.ask(({**event, "limit": LENGTH} for event, _ in wishes), _TIMEOUT):
            key = result["query_id"]
            # Whatever the order of the answers, a user clicks alike.
            chance = random.Random(f"{seed} {key}")
            messages = [orjson.dumps(each) for each in react(crowd, result, grades[key], chance)]
            sender.send([ProducerRecord(topics.feedback, key.encode(), each) for each in messages])
            clicked |= {key} if messages else set()
    return clicked
