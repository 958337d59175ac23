"""Shortening: a result that its topic doesn't take loses parts until it fits.

First goes its pool, then the further documents of groups, then texts and payloads, then results.
"""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import Reason
from schemas.result import Status

Event = dict[str, Any]

STAGE = "result"


def shorten(
    event: Mapping[str, Any], fits: Callable[[Event], bool], cursor: Callable[[int], str | None]
) -> Event | None:
    """The longest form of the event that fits, with a note of the missing parts; None if even the shortest doesn't.

    `cursor` gives the cursor of the page after a number of results. Without any result there is none: a client would
    ask for the same page for ever.
    """
    whole = len(event["results"])
    unrecorded = _short(event)
    if "pool" in event:
        del unrecorded["pool"]
        unrecorded["warnings"] = [*event["warnings"], "the candidate pool is left out: the topic takes no more"]
        if fits(unrecorded):
            return unrecorded
    if any(hit.get("group", {}).get("results") for hit in event["results"]):
        alone = [{**hit, "group": {**hit["group"], "results": []}} for hit in event["results"]]
        said = "the further documents of groups are left out: the topic takes no more"
        unrecorded |= {"results": alone, "warnings": [*unrecorded["warnings"], said]}
        if fits(unrecorded):
            return unrecorded
    bare = {**unrecorded, "results": [{**hit, "text": None, "payload": {}} for hit in unrecorded["results"]]}

    def first_results(count: int) -> Event:
        if count == whole:
            return bare
        said = f"the last {whole - count} of {whole} results are left out: the topic takes no more"
        page = {"results": bare["results"][:count], "has_more": True, "next_cursor": cursor(count) if count else None}
        return {**bare, **page, "warnings": [*bare["warnings"], said]}

    # The fewer results, the smaller: the most that fit are found by halving.
    least, most = -1, whole
    while least < most:
        middle = (least + most + 1) // 2
        if fits(first_results(middle)):
            least = middle
        else:
            most = middle - 1
    return first_results(least) if least >= 0 else None


def _short(event: Mapping[str, Any]) -> Event:
    lost = {"stage": STAGE, "reason": Reason.TOO_LARGE}
    status = event["status"]
    return {
        **event,
        "status": Status.PARTIAL if status in {Status.OK, Status.UNRANKED} else status,
        "degraded": [*event["degraded"], lost],
    }
