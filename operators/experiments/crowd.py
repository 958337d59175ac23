"""A simulated crowd: users who read a page downwards and click with noise, as the cascade model says.

A result attracts by its grade. A user who clicks on it is likely satisfied and goes, and else reads on; a user who
passes it by may lose patience. Source: Craswell, Zoeter, Taylor and Ramsey, WSDM 2008, with the satisfaction and the
patience of Chapelle and Zhang, A dynamic Bayesian network click model for web search ranking, WWW 2009.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LENGTH: Final = 10
"""Results of a page."""

_WORDS: Final = 4
"""Words of a query."""

_BEGINNING: Final = 300
"""Characters of a text from which a user knows words."""

Wish = tuple[dict[str, Any], Mapping[str, int]]
"""A query event, and the grades of the documents that its user looks for."""


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


def react(
    crowd: Crowd, result: Mapping[str, Any], grades: Mapping[str, int], chance: random.Random
) -> Iterator[dict[str, str]]:
    """The feedback of one user to a result: a message for each click, on hits that have a token."""
    hits, highest = result["results"], len(crowd.attraction) - 1
    for rank in crowd.read([min(highest, grades.get(hit["id"], 0)) for hit in hits], chance):
        if "token" in hits[rank]:
            yield {"token": hits[rank]["token"], "action": "click"}


def seek(documents: Sequence[Mapping[str, Any]], recipe: str, wanted: int, users: int, seed: int) -> Iterator[Wish]:
    """The wishes of so many users for each of `wanted` documents, by some words of its beginning, under this recipe."""
    chance = random.Random(seed)  # noqa: S311 - wishes are no secret
    worded = [(each, re.findall(r"[a-z]{4,}", each["text"][:_BEGINNING])) for each in documents]
    known = [(each, words) for each, words in worded if len(words) > _WORDS]
    for number, (document, words) in enumerate(chance.sample(known, wanted)):
        event = {"text": " ".join(chance.sample(words, _WORDS)), "namespace": document["namespace"], "recipe": recipe}
        for user in range(users):
            yield {"query_id": f"crowd-{number}-{user}", **event}, {document["id"]: 2}
