"""Room: what a result gives up that is larger than its topic takes, in which order."""

from typing import Any

from operators.stages.publish import Publisher
from tests.operators.query.test_result import ranked
from tests.operators.stages.test_publish import event_of, written
from tests.operators.stages.test_publish import taking as publishing


def taking(size: int) -> Publisher:
    """A publisher whose topic takes so many bytes of a record."""
    return publishing(results=size, dead_letters=1_000_000)


def in_room(size: int) -> tuple[dict[str, Any], int]:
    """The answer to a query that wants its pool, in a topic that takes so many bytes; and the answer's size."""
    record = written(ranked(record=True, explain=True), taking(size))
    return event_of(record), record.size


POOL_OUT = "the candidate pool is left out: the topic takes no more"
TOO_LARGE = [{"stage": "result", "reason": "too_large"}]


def test_what_has_no_room_goes_in_order_and_is_said() -> None:
    """Byte by byte less room: first the pool goes, then payloads from the end, then results; each time the
    answer says what it lost, and what is left is as it was.
    """
    whole, size = in_room(1_000_000)
    assert (whole["status"], whole["degraded"], whole["warnings"]) == ("ok", [], [])
    assert in_room(size)[0] == whole

    unrecorded, size = in_room(size - 1)
    assert "pool" not in unrecorded
    assert unrecorded["results"] == whole["results"]
    assert (unrecorded["status"], unrecorded["degraded"], unrecorded["warnings"]) == ("partial", TOO_LARGE, [POOL_OUT])
    assert in_room(size)[0] == unrecorded

    short, kept = unrecorded, 5
    while kept:
        short, size = in_room(size - 1)
        before, kept = kept, sum(hit["payload"] != {} for hit in short["results"])
        assert kept < before
        assert short["results"][:kept] == whole["results"][:kept]
        assert short["results"][kept:] == [{**hit, "payload": {}} for hit in whole["results"][kept:]]
        payloads_out = f"payloads are left out in {5 - kept} of 5 results: the topic takes no more"
        assert (short["degraded"], short["warnings"]) == (TOO_LARGE, [POOL_OUT, payloads_out])
        assert in_room(size)[0] == short

    fewer, _ = in_room(size - 1)
    assert fewer["results"] == short["results"][:-1]
    assert fewer["degraded"] == TOO_LARGE
    assert fewer["warnings"][-1] == "the last 1 of 5 results are left out: the topic takes no more"
    assert (fewer["total"], fewer["has_more"]) == (whole["total"], True)
