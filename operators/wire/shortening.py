"""Shortening: a result that its topic doesn't take loses what it can do without best, and no more than it must.

In this order: its pool; neighbours; of the further documents of groups texts beyond their best passage, then these
documents; texts beyond their best passage; payloads; the last results. Each but the pool goes first from the last
results. A result that is left has a text, unless there would be none with its text.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from operators.text.passages import SIZE
from schemas.errors import Reason
from schemas.result import Status

Event = dict[str, Any]
Fits = Callable[[Event], bool]

STAGE = "result"

_NO_MORE: Final = "the topic takes no more"


def shorten(
    event: Mapping[str, Any], fits: Fits, cursor: Callable[[int], str | None], best: Callable[[str], str]
) -> Event | None:
    """The longest form of the event that fits, with a note of the missing parts; None if even the shortest doesn't.

    `cursor` gives the cursor of the page after a number of results, `best` the best passage of a text. Without any
    result there is no cursor: a client would ask for the same page for ever.
    """
    short = _note_loss(event)
    if "pool" in event:
        del short["pool"]
        short = _warn(short, f"the candidate pool is left out: {_NO_MORE}")
        if fits(short):
            return short

    def cut_text(hit: Event) -> Event:
        text = hit["text"]
        return {**hit, "text": best(text)} if text is not None and len(text) > SIZE else hit

    for said, lose in (
        ("neighbours are left out", lambda hit: _in_group(_without_neighbours, _without_neighbours(hit))),
        ("texts of further documents are cut to their best passage", partial(_in_group, cut_text)),
        ("the further documents of groups are left out", _without_further),
        ("texts are cut to their best passage", cut_text),
        ("payloads are left out", _without_payload),
    ):
        shorter = _lose(short, said, lose, fits)
        # To ask whether it fits is to write it: one that has lost nothing more was asked about.
        if shorter is not short and fits(shorter):
            return shorter
        short = shorter
    found = _first_results(short, fits, cursor)
    if found is None or not found["results"]:
        bare = {**short, "results": [_without_text(hit) for hit in short["results"]]}
        found = bare if fits(bare) else _first_results(bare, fits, cursor)
    return found


def _lose(short: Event, said: str, lose: Callable[[Event], Event], fits: Fits) -> Event:
    """The event with that loss of as few results as it fits with, from the last one on; of all if it never fits."""
    hits = short["results"]
    shorter = [lose(hit) for hit in hits]
    losing = [place for place in reversed(range(len(hits))) if shorter[place] != hits[place]]
    if not losing:
        return short

    def reduce_by(count: int) -> Event:
        at = set(losing[:count])
        results = [shorter[place] if place in at else hit for place, hit in enumerate(hits)]
        return _warn({**short, "results": results}, f"{said} in {count} of {len(hits)} results: {_NO_MORE}")

    counts = range(1, len(losing) + 1)
    return reduce_by(counts[bisect_left(counts[:-1], True, key=lambda count: fits(reduce_by(count)))])


def _first_results(short: Event, fits: Fits, cursor: Callable[[int], str | None]) -> Event | None:
    """The event with as many of its first results as fit, at least one less than it has; None if none do."""
    whole = len(short["results"])

    def without(left_out: int) -> Event:
        count = whole - left_out
        page = {"results": short["results"][:count], "has_more": True, "next_cursor": cursor(count) if count else None}
        return _warn({**short, **page}, f"the last {left_out} of {whole} results are left out: {_NO_MORE}")

    counts = range(1, whole + 1)
    # The fewer results, the smaller: the most that fit are found by halving.
    found = bisect_left(counts, True, key=lambda count: fits(without(count)))
    return without(counts[found]) if found < len(counts) else None


def _in_group(lose: Callable[[Event], Event], hit: Event) -> Event:
    """The result with that loss of each further document of its group."""
    if "group" not in hit:
        return hit
    return {**hit, "group": {**hit["group"], "results": [lose(each) for each in hit["group"]["results"]]}}


def _without_further(hit: Event) -> Event:
    return {**hit, "group": {**hit["group"], "results": []}} if "group" in hit else hit


def _without_neighbours(hit: Event) -> Event:
    return {name: value for name, value in hit.items() if name != "neighbours"}


def _without_payload(hit: Event) -> Event:
    return {**hit, "payload": {}}


def _without_text(hit: Event) -> Event:
    return {name: value for name, value in hit.items() if name != "passages"} | {"text": None}


def _warn(event: Event, warning: str) -> Event:
    return {**event, "warnings": [*event["warnings"], warning]}


def _note_loss(event: Mapping[str, Any]) -> Event:
    lost = {"stage": STAGE, "reason": Reason.TOO_LARGE}
    status = event["status"]
    return {
        **event,
        "status": Status.PARTIAL if status in {Status.OK, Status.UNRANKED} else status,
        "degraded": [*event["degraded"], lost],
    }
