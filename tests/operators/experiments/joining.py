"""A join of a whole topic with feedback at once, which knows no windows that open and close; and impressions for it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from operators.experiments.impression import Impression, TokenCodec

SECRET = b"a secret of the tests"
TOKENS = TokenCodec(SECRET)
Query = tuple[str, str, str, int]


class Event(NamedTuple):
    """A feedback event in its topic; `time` is the broker's, in ms."""

    time: int
    impression: Impression
    action: str = "click"


def impression(query: str = "q", document: str = "d0", issued: int = 0, **changes: Any) -> Impression:
    """An impression of a query; the document's digit says its rank, and its side: those of odd numbers are b's."""
    number = int(document[-1])
    known: dict[str, Any] = {"experiment": "x", "side": "ab"[number % 2], "rank": number, "namespace": "public"}
    return Impression(document_id=document, query_id=query, issued_ms=issued, **{**known, **changes})


def query_of(of: Impression) -> Query:
    """The query of an impression."""
    return of.experiment, of.namespace, of.query_id, of.issued_ms


def join(events: Iterable[Event], length: int, most: int = 30) -> dict[Query, dict[str, Any]]:
    """Each query's clicks by side, and the side that has more, by the events within its window."""
    clicks: Mapping[Query, dict[tuple[str, str], str]] = defaultdict(dict)
    for time, of, action in events:
        if of.issued_ms - length <= time <= of.issued_ms + length:
            clicks[query_of(of)].setdefault((of.document_id, action), of.side)
    joined: dict[Query, dict[str, Any]] = {}
    for query, found in clicks.items():
        if len(found) > most:
            joined[query] = {"robot": True}
            continue
        a = sum(side == "a" for side in found.values())
        b = len(found) - a
        winner = "tie" if a == b else "a" if a > b else "b"
        joined[query] = {"robot": False, "a": a, "b": b, "preferred": winner, "actions": sorted(found)}
    return joined


def joined_of(preference: Mapping[str, Any]) -> tuple[Query, dict[str, Any]]:
    """A preference, as the join has it."""
    query = tuple(preference[name] for name in ("experiment", "namespace", "query_id", "issued"))
    actions = sorted((click["id"], action) for click in preference["clicks"] for action in click["actions"])
    known: dict[str, Any] = {
        "actions": actions,
        **{name: preference[name] for name in ("a", "b", "preferred", "robot")},
    }
    return query, {"robot": True} if preference["robot"] else known
