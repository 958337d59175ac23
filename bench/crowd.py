"""A simulated crowd: users who read a page downwards and click with noise, as the cascade model says.

A result attracts by its grade. A user who clicks on it is likely satisfied and goes, and else reads on; a user who
passes it by may lose patience. Source: Craswell, Zoeter, Taylor and Ramsey, WSDM 2008, with the satisfaction and the
patience of Chapelle and Zhang, A dynamic Bayesian network click model for web search ranking, WWW 2009.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operators.experiments.impression import SIDES
from schemas.preference import Click, Comparison, Preference, Shown, Side

ISSUED = 1_800_000_000_000
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


def draft(a: Sequence[str], b: Sequence[str], length: int, chance: random.Random) -> list[Shown]:
    """Team-draft interleaving: whoever has fewer results on the page picks next, a coin decides between equals.

    Source: Radlinski, Kurup and Joachims, How does clickthrough data reflect retrieval quality, CIKM 2008.
    """
    page, seen, picked = list[Shown](), set[str](), {side: 0 for side in SIDES}
    while len(page) < length:
        side: Side = min(SIDES, key=lambda each: (picked[each], chance.random()))
        id_ = next((id_ for id_ in (a if side == "a" else b) if id_ not in seen), None)
        if id_ is None:
            break
        page.append(Shown(id=id_, side=side))
        seen.add(id_)
        picked[side] += 1
    return page


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
) -> tuple[Comparison, Preference | None]:
    """One user's query: the records that the flows would write of it, no preference if nothing was clicked on."""
    page = draft(asked.a, asked.b, 10, chance)
    about = {"experiment": experiment, "query_id": query_id, "namespace": asked.namespace, "issued": issued}
    comparison = Comparison(
        **about,
        mode="interleave",
        text=asked.text,
        a=[*asked.a],
        b=[*asked.b],
        shown=page,
        overlap=0.5,
        cpu_ms=1.0,
    )
    ranks = crowd.read([asked.grades.get(hit.id, 0) for hit in page], chance)
    clicks = [Click(id=page[rank].id, rank=rank, side=page[rank].side, actions=["click"]) for rank in ranks]
    a, b = (sum(click.side == side for click in clicks) for side in SIDES)
    preferred = "tie" if a == b else "a" if a > b else "b"
    return comparison, Preference(**about, a=a, b=b, preferred=preferred, clicks=clicks) if clicks else None
