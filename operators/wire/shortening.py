"""Shortening: a result that its topic doesn't take loses what it can do without best, and no more than it must.

In this order: its pool; neighbours; of the further documents of groups texts beyond their best passage, then these
documents; texts beyond their best passage; payloads; the last results. Each but the pool goes first from the last
results. A result that is left has a text, unless there would be none with its text.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from operators.text.passages import SIZE
from schemas.errors import Reason
from schemas.result import Status

Event = dict[str, Any]
Fits = Callable[[Event], bool]
CursorAfter = Callable[[int], str | None]
"""The cursor of the page after a number of results; None where no page is."""

STAGE = "result"


def shorten(event: Mapping[str, Any], fits: Fits, cursor: CursorAfter, best: Callable[[str], str]) -> Event | None:
    """The longest form of the event that fits, with a note of the missing parts; None if even the shortest doesn't.

    `best` gives the best passage of a text. Without any result there is no cursor: a client would ask for the same page
    for ever.
    """
    status = event["status"]
    short = {
        **event,
        "status": Status.PARTIAL if status in {Status.OK, Status.UNRANKED} else status,
        "degraded": [*event["degraded"], {"stage": STAGE, "reason": Reason.TOO_LARGE}],
    }
    if "pool" in event:
        del short["pool"]
        short = _warn(short, "the candidate pool is left out")
        if fits(short):
            return short

    def cut_text(hit: Event) -> Event:
        text = hit["text"]
        return {**hit, "text": best(text)} if text is not None and len(text) > SIZE else hit

    def drop(name: str, hit: Event) -> Event:
        return {key: value for key, value in hit.items() if key != name}

    losses: Sequence[tuple[str, Callable[[Event], Event]]] = (
        ("neighbours are left out", lambda hit: _in_group(partial(drop, "neighbours"), drop("neighbours", hit))),
        ("texts of further documents are cut to their best passage", partial(_in_group, cut_text)),
        ("the further documents of groups are left out", partial(_in_group, None)),
        ("texts are cut to their best passage", cut_text),
        ("payloads are left out", lambda hit: {**hit, "payload": {}}),
    )
    for said, lose in losses:
        shorter = _lose(short, said, lose, fits)
        # To ask whether it fits is to write it: one that has lost nothing more was asked about.
        if shorter is not short and fits(shorter):
            return shorter
        short = shorter
    found = _first_results(short, fits, cursor)
    if found is None or not found["results"]:
        bare = {**short, "results": [drop("passages", hit) | {"text": None} for hit in short["results"]]}
        found = bare if fits(bare) else _first_results(bare, fits, cursor)
    return found


def count_results(written: bytes | None) -> int | None:
    """The number of results of a written event that was shortened; None: it has them all."""
    if written is None or Reason.TOO_LARGE.encode() not in written:
        return None
    event = json.loads(written)
    # A structured CloudEvent has the event in it.
    return len(event.get("data", event)["results"])


def _lose(short: Event, said: str, lose: Callable[[Event], Event], fits: Fits) -> Event:
    """The event with that loss of as few results as it fits with, from the last one on; of all if it never fits."""
    hits = short["results"]
    shorter = [lose(hit) for hit in hits]
    losing = [place for place in reversed(range(len(hits))) if shorter[place] != hits[place]]

    def reduce_by(count: int) -> Event:
        at = set(losing[:count])
        results = [shorter[place] if place in at else hit for place, hit in enumerate(hits)]
        return _warn({**short, "results": results}, f"{said} in {count} of {len(hits)} results")

    # The loss in all of them is not tried: the caller asks whether that fits.
    fewest = 1 + bisect_left(range(1, len(losing)), True, key=lambda count: fits(reduce_by(count)))
    return reduce_by(fewest) if losing else short


def _first_results(short: Event, fits: Fits, cursor: CursorAfter) -> Event | None:
    """The event with as many of its first results as fit, at least one less than it has; None if none do."""
    whole = len(short["results"])

    def without(left_out: int) -> Event:
        count = whole - left_out
        page = {"results": short["results"][:count], "has_more": True, "next_cursor": cursor(count) if count else None}
        return _warn({**short, **page}, f"the last {left_out} of {whole} results are left out")

    counts = range(1, whole + 1)
    # The fewer results, the smaller: the most that fit are found by halving.
    found = bisect_left(counts, True, key=lambda left_out: fits(without(left_out)))
    return without(counts[found]) if found < len(counts) else None


def _in_group(lose: Callable[[Event], Event] | None, hit: Event) -> Event:
    """The result with that loss of each further document of its group; None: without these documents."""
    if "group" not in hit:
        return hit
    further = [lose(each) for each in hit["group"]["results"]] if lose is not None else []
    return {**hit, "group": {**hit["group"], "results": further}}


def _warn(event: Event, lost: str) -> Event:
    return {**event, "warnings": [*event["warnings"], f"{lost}: the topic takes no more"]}
